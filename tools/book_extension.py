"""What the book adds to Sphinx: logo, addresses, chapter numbers, clean references."""

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

    The table of contents lists the chapters that are written, so counting them would
    give a chapter another number than its file has.
    """

    def assign_section_numbers(self, env):
        changed = assign(self, env)
        for page, numbers in env.toc_secnumbers.items():
            found = re.match(r"chapters/(\d+)_", page)
            if found:
                renumber(env, page, numbers, int(found[1]))
        for page, numbers in list(env.toc_secnumbers.items()):
            for place, section in enumerate(env.toctree_includes.get(page, ()), 1):
                number_page_below(env, section, (*numbers[""], place))
        return changed

    return assign_section_numbers


def renumber(env, page, numbers, chapter):
    """Give one page's title, and its entries in tables of contents, their number."""
    for anchor, number in numbers.items():
        numbers[anchor] = number and (chapter, *number[1:])
    for entry in [env.titles[page], *env.tocs[page].findall(nodes.reference)]:
        if entry.get("secnumber"):
            entry["secnumber"] = [chapter, *entry["secnumber"][1:]]


def number_page_below(env, page, number):
    """Number a page that the table of contents lists below a chapter: 3.1 below 3."""
    entries = list(env.tocs[page].findall(nodes.reference))
    env.toc_secnumbers[page] = {entry["anchorname"]: () for entry in entries}
    env.toc_secnumbers[page][""] = number
    env.titles[page]["secnumber"] = entries[0]["secnumber"] = [*number]


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
    app.connect("config-inited", set_date, priority=100)
    Collector.assign_section_numbers = number_by_file(Collector.assign_section_numbers)
    app.connect("html-page-context", mend_bibliography)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
