"""What the book adds to Sphinx: its logo, its address, and accessible references."""

from urllib.parse import urlsplit


def set_addresses(app, config):
    """Derive the logo and every address of the published book from `_config.yml`."""
    config.html_theme_options["logo"] = {
        "image_light": "assets/drawn/logo.svg",
        "image_dark": "assets/drawn/logo.svg",
        "text": config.html_title,
        "alt_text": "",
    }
    config.ogp_site_url = config.html_baseurl
    config.notfound_urls_prefix = urlsplit(config.html_baseurl).path


def setup(app):
    app.connect("config-inited", set_addresses, priority=100)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
