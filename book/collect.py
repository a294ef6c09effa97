#!/usr/bin/env python3
"""The sources of the book: collect.py REPOSITORY TO

Copies the pages that docs/SUMMARY.md names, and the files that these link to, to TO/src, in the folders where the repository has
them, so that links hold. A comment `<!-- picture FILE.svg: COMMAND -->` becomes the picture that the command draws, in a folder
beside the page with the repository's testdata; the tools come from PATH.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
# A link, or code, in which there are none: fences, and what is between backticks.
LINK_OR_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`|(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", re.M | re.S)
PICTURE = re.compile(r"<!-- picture ([\w.-]+\.svg): (.*?) -->")


def fail(message):
    sys.exit(f"collect.py: {message}")


class Book:
    def __init__(self, repository, to):
        self.repository, self.to = repository, to
        summary = (repository / "docs/SUMMARY.md").read_text()
        self.pages = [(repository / "docs" / link).resolve() for _, link in LINK.findall(summary)]
        # The folders of the book are those of the repository.
        self.summary = LINK.sub(lambda m: f"[{m[1]}]({self.name((repository / 'docs' / m[2]).resolve())})", summary)

    def name(self, path):
        try:
            return path.relative_to(self.repository).as_posix()
        except ValueError:
            fail(f"{path} is not in the repository")

    def target(self, page, match):
        """A link as it is in the book: folders lead to their page if there is one, and are text if there is none."""
        text, link = match.groups()
        if link is None:
            return match[0]
        if "://" in link or link.startswith("#"):
            return match[0]
        path, _, anchor = link.partition("#")
        file = (page.parent / path).resolve()
        if file.is_dir():
            readme = file / "README.md"
            return f"[{text}]({path.rstrip('/')}/README.md)" if readme in self.pages else text
        if not file.exists():
            fail(f"{self.name(page)} links to {link}, which is not there")
        if file.suffix == ".md" and file not in self.pages:
            return text
        if file.suffix != ".md":
            # Browsers show text, and offer the rest for saving.
            copy = self.to / "src" / self.name(file)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, copy)
        return match[0]

    def draw(self, page, match):
        file, command = match.groups()
        folder = self.to / "src" / self.name(page.parent)
        links = folder / "testdata"
        if not links.exists():
            links.symlink_to(self.repository / "testdata")
        done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True)
        if (folder / file).exists():
            return f"![`{command}`]({file})\n\n*`{command}`*"
        said = (done.stderr or done.stdout).strip()
        fail(f"{self.name(page)}: `{command}` drew no {file}:\n{said}")

    def page(self, page):
        text = LINK_OR_CODE.sub(lambda m: self.target(page, m), page.read_text())
        copy = self.to / "src" / self.name(page)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(PICTURE.sub(lambda m: self.draw(page, m), text))

    def collect(self):
        for page in self.pages:
            if not page.is_file():
                fail(f"docs/SUMMARY.md names {self.name(page)}, which is not there")
            self.page(page)
        for link in (self.to / "src").rglob("testdata"):
            if link.is_symlink():
                link.unlink()
        (self.to / "src/SUMMARY.md").write_text(self.summary)


def main():
    repository, to = (Path(argument).resolve() for argument in sys.argv[1:3])
    shutil.rmtree(to, ignore_errors=True)
    (to / "src").mkdir(parents=True)
    shutil.copyfile(repository / "book/book.toml", to / "book.toml")
    Book(repository, to).collect()


main()
