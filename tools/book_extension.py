"""What the book adds to Sphinx: its logo, its addresses, and accessible references."""

from urllib.parse import urlsplit

from bs4 import BeautifulSoup


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


def mend_bibliography(app, page, template, context, doctree):
    """Make the bibliography a plain list for screen readers.

    docutils marks its entries with roles of an e-book's vocabulary that must stand
    inside a list which it does not write; browsers report them as errors.
    """
    if 'role="doc-biblioentry"' not in context.get("body", ""):
        return
    body = BeautifulSoup(context["body"], "html.parser")
    for entry in body.select('[role="doc-biblioentry"]'):
        entry["role"] = "listitem"
        entry.parent["role"] = "list"
    context["body"] = str(body)


def setup(app):
    app.connect("config-inited", set_addresses, priority=100)
    app.connect("html-page-context", mend_bibliography)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
