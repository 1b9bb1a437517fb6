"""Links lead somewhere."""

import re
from pathlib import Path

from docs_pages import DOCS, anchors_of, pages, prose_of, readmes, text_of

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def relative_links(page: Path) -> list[str]:
    return [link for link in LINK.findall(prose_of(page)) if "://" not in link]


def target_of(page: Path, link: str) -> tuple[Path, str]:
    file, _, anchor = link.partition("#")
    return ((page.parent / file).resolve() if file else page), anchor


def test_every_relative_link_leads_to_a_file_and_a_heading() -> None:
    broken: list[str] = []
    for page in [*pages(), *readmes()]:
        for link in relative_links(page):
            target, anchor = target_of(page, link)
            if not target.exists() or (anchor and anchor not in anchors_of(target)):
                broken.append(f"{page}: {link}")
    assert broken == []


def test_every_page_can_be_reached_from_the_map() -> None:
    reached = {DOCS / "README.md"}
    waiting = list(reached)
    while waiting:
        page = waiting.pop()
        found = {target_of(page, link)[0] for link in relative_links(page)} & set(pages())
        waiting += found - reached
        reached |= found
    unreached = {page for page in pages() if "midspan-acme-shell" not in page.parts} - reached
    assert unreached == set()


def test_no_page_names_the_place_of_a_clone_on_somebody_s_machine() -> None:
    for page in pages():
        assert not re.search(r"/(home|root|Users|work)/", text_of(page)), page
