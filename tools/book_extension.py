"""What the book adds to Sphinx: logo, addresses, numbers, references, sources."""

import os
import re
from urllib.parse import urlsplit

from bs4 import BeautifulSoup
from docutils import nodes
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles as Collector


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


def set_date(app, config):
    """Date the pages by the last commit; without one, they bear no date."""
    if "SOURCE_DATE_EPOCH" not in os.environ:
        config.html_last_updated_fmt = None


def number_by_file(assign):
    """Wrap Sphinx's numbering: a chapter bears the number of its file's name.

    The table of contents lists the chapters that are written, and pages between them
    such as 5a, so counting would give a chapter another number than its file has.
    """

    def assign_section_numbers(self, env):
        changed = assign(self, env)
        for page, numbers in env.toc_secnumbers.items():
            found = re.match(r"chapters/0*(\d+[a-z]?)_", page)
            if found:
                renumber(env, page, numbers, found[1])
        return changed

    return assign_section_numbers


def renumber(env, page, numbers, chapter):
    """Give one page's title, and its entries in tables of contents, their number."""
    for anchor, number in numbers.items():
        numbers[anchor] = number and (chapter, *number[1:])
    for entry in [env.titles[page], *env.tocs[page].findall(nodes.reference)]:
        if entry.get("secnumber"):
            entry["secnumber"] = [chapter, *entry["secnumber"][1:]]


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


def list_sources(app, what, name, obj, options, lines):
    """Make the source of a formula an entry beside a function's parameters."""
    found = re.compile(
        r"^Source:(.*(?:\n.*\S.*)*)", re.MULTILINE
    )  # up to an empty line
    text = "\n".join(lines)
    text = found.sub(lambda source: f":Source: {' '.join(source[1].split())}", text)
    lines[:] = text.split("\n")


def skip_fields(app, what, name, obj, skip, options):
    """Leave out a named tuple's fields, which its arguments describe."""
    return True if (obj.__doc__ or "").startswith("Alias for field number") else None


def setup(app):
    app.connect("config-inited", set_addresses, priority=100)
    app.connect("config-inited", set_date, priority=100)
    Collector.assign_section_numbers = number_by_file(Collector.assign_section_numbers)
    app.connect("html-page-context", mend_bibliography)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("autodoc-process-docstring", list_sources, priority=600)  # as fields
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
