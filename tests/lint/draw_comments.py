#!/usr/bin/env python3
"""Draws comments at random from the sources of this repository, to be read without their code.

The draw is reproducible, because the sources and the seed both come from one commit. Every comment and docstring in
C, header, Python, CMake and shell files is equally likely to be drawn. Adjacent lines of // or # comments are one
comment. Generated files, licence headers, section rulers ("---- codec ----"), directives to other programs
("# shellcheck disable=...") and comments of fewer than four words are left out.
"""
import argparse
import ast
import collections
import inspect
import io
import os
import random
import re
import subprocess
import sys
import tokenize

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FEWEST_WORDS = 4
GENERATED = re.compile(r"\b(?:(?:generated|written) by \S+\.py|do not edit)\b", re.I)
LICENCE = re.compile(r"\b(?:copyright|SPDX-License-Identifier|licensed under)\b", re.I)
RULER = re.compile(r"[-=*#~_/ ]{3,}[^\n]*[-=*#~_/]{3,}")
DIRECTIVE = re.compile(r"(?:clang-format |shellcheck |pylint: |noqa\b|type: )")
# Matches a string, a character constant or a comment in C.
C_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//(?:\\\n|[^\n])*|/\*.*?\*/', re.S)
# Matches CMake's bracket arguments, strings, bracket comments and line comments.
CMAKE_TOKEN = re.compile(r'#?\[(=*)\[.*?\]\1\]|"(?:\\.|[^"\\])*"|#[^\n]*', re.S)
# Matches a here-document, an escaped character, a string or a comment in a shell script. A # inside a word does not
# begin a comment.
SHELL_TOKEN = re.compile(r"<<-?\s*(['\"]?)(\w+)\1.*?\n\s*\2(?=\n)|\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|(?<![^\s;&|()])#[^\n]*", re.S)

# A comment as written in the source. `line` and `column` are the position of its beginning. `alone` means that only
# white space precedes the comment in its line.
Piece = collections.namedtuple("Piece", "line column alone text")
Comment = collections.namedtuple("Comment", "path line text")


def matched(pattern, text, begins):
    """Yields a Piece for each match of `pattern` in `text` that begins with one of the strings `begins`."""
    for match in pattern.finditer(text):
        if match[0].startswith(begins):
            before = text[text.rfind("\n", 0, match.start()) + 1:match.start()]
            yield Piece(text.count("\n", 0, match.start()) + 1, len(before), not before.strip(), match[0])


def joined(pieces, mark):
    """Yields (line, text) for each comment whose lines begin with `mark`. A line continues the comment above it if it
    begins in the same column and only white space precedes it."""
    comment, last = None, None
    for piece in pieces:
        text = re.sub(rf"^{mark}+ ?", "", piece.text)
        if last and piece.alone and piece.line == last.line + 1 and piece.column == last.column:
            comment[1].append(text)
        else:
            if comment:
                yield comment[0], "\n".join(comment[1])
            comment = (piece.line, [text])
        last = piece
    if comment:
        yield comment[0], "\n".join(comment[1])


def in_c(text):
    for piece in matched(C_TOKEN, text, "/*"):
        # In a macro, each line of a comment but the last ends in a backslash.
        first, *others = re.split(r"\\?\n", piece.text[2:-2].strip("*"))
        lines = [first, *(re.sub(r"^\s*(?:\*(?: |$))?", "", line) for line in others)]
        yield piece.line, "\n".join(line.rstrip() for line in lines).strip()
    yield from joined(matched(C_TOKEN, text, "//"), "/")


def in_python(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    yield from joined((Piece(*t.start, not t.line[:t.start[1]].strip(), t.string)
                       for t in tokens if t.type == tokenize.COMMENT), "#")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node, clean=False)
            if docstring is not None:
                yield node.body[0].lineno, inspect.cleandoc(docstring)


def in_cmake(text):
    yield from joined(matched(CMAKE_TOKEN, text, "#"), "#")


def in_shell(text):
    yield from joined(matched(SHELL_TOKEN, text, "#"), "#")


def reader_of(path):
    """Returns the function that reads the comments of a file with the given path, or None for a file of another
    language."""
    name = os.path.basename(path)
    if name.endswith((".c", ".cc", ".h", ".cu", ".cuh", ".inc")):
        return in_c
    if name.endswith(".py"):
        return in_python
    if name == "CMakeLists.txt" or name.endswith(".cmake"):
        return in_cmake
    if name in ("run", "Dockerfile") or name.endswith(".sh"):
        return in_shell
    return None


def is_prose(text):
    words = re.findall(r"[A-Za-z][\w'-]*", text)
    ruler = RULER.fullmatch(text.strip()) is not None
    return len(words) >= FEWEST_WORDS and not (ruler or LICENCE.search(text) or DIRECTIVE.match(text))


def comments_of(path, text):
    """Returns those comments of a file that a reader can judge, sorted by line."""
    read = reader_of(path)
    if read is None or GENERATED.search("\n".join(text.split("\n", 3)[:3])):
        return []
    found = []
    for line, comment in sorted(read(text)):
        if text.startswith("#!") and line == 1:  # The interpreter line "#!" is not a part of the comment below it.
            line, comment = 2, comment.partition("\n")[2]
        if is_prose(comment):
            found.append(Comment(path, line, comment.strip()))
    return found


def git(*arguments, text=None):
    return subprocess.run(["git", *arguments], cwd=ROOT, input=text, check=True, stdout=subprocess.PIPE).stdout


def sources_of(commit):
    """Yields (path, text) of each file of `commit` that may have comments."""
    names = git("ls-tree", "-r", "-z", "--name-only", commit).decode().split("\0")
    names = [name for name in names if name and reader_of(name)]
    blobs = git("cat-file", "--batch", text="".join(f"{commit}:{name}\n" for name in names).encode())
    at = 0
    for name in names:  # git prints each file as the line "HASH blob SIZE", the file's bytes, and a line feed.
        end = blobs.index(b"\n", at)
        size = int(blobs[at:end].split()[2])
        yield name, blobs[end + 1:end + 1 + size].decode()
        at = end + size + 2


def draw(commit, n):
    """Returns (the hash of `commit`, the number of comments in it, `n` of these comments drawn at random)."""
    full = git("rev-parse", "--verify", f"{commit}^{{commit}}").decode().strip()
    comments = [comment for path, text in sources_of(full) for comment in comments_of(path, text)]
    return full, len(comments), random.Random(int(full, 16)).sample(comments, min(n, len(comments)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", nargs="?", type=int, default=80, help="how many comments are drawn (80)")
    parser.add_argument("--commit", default="HEAD", help="the commit whose sources and hash are used (HEAD)")
    parser.add_argument("--where", action="store_true", help="print the file and line of each comment too")
    args = parser.parse_args()
    commit, n, drawn = draw(args.commit, args.n)
    print(f"{len(drawn)} of {n} comments of {commit[:12]}")
    for number, comment in enumerate(drawn, 1):
        where = f" {comment.path}:{comment.line}" if args.where else ""
        print(f"\n{number}.{where}")
        print("\n".join(f"    {line}".rstrip() for line in comment.text.split("\n")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
