"""A workload and its rules in one archive: what it gives, and what is refused."""

from __future__ import annotations

import contextlib
import gzip
import io
import random
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from workloads import archives
from workloads.archives import ArchivedFile, ArchiveError, matching, read_archive, workload_file
from workloads.loading import load_workload, parse_archive

WORKLOAD = """
stream: {time: ts, sequence: n}
rules:
- {sigma: rules/**, logsources: map/logsources.yaml}
- {eql: [more/*.toml, more/one.eql]}
"""
SIGMA = """title: {title}
logsource: {{product: windows, category: start}}
detection: {{s: {{x: 1}}, condition: s}}
"""
FILES = {
    "detections.yaml": WORKLOAD,
    "map/logsources.yaml": "categories: {start: [{kind: [p]}]}",
    "rules/a.yml": SIGMA.format(title="A"),
    "rules/deep/er/b.yaml": SIGMA.format(title="B") + "---\n" + SIGMA.format(title="C"),
    "rules/deep/bad.yml": "title: [",
    "rules/readme.md": "no rule",
    "rules/.hidden/d.yml": SIGMA.format(title="D"),
    "more/one.eql": "any where x == 1",
    "more/two.toml": "[rule]\nname = 'two'\nquery = 'any where x == 2'\n",
}
Files = Mapping[str, str | bytes]


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def zipped(files: Files) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), as_bytes(text), zipfile.ZIP_DEFLATED)
    return body.getvalue()


def tarred(files: Files, *others: tarfile.TarInfo) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(as_bytes(text))
            archive.addfile(entry, io.BytesIO(as_bytes(text)))
        for entry in others:
            archive.addfile(entry)
    return body.getvalue()


PACKED = pytest.mark.parametrize("packed", [zipped, tarred])
Packed = Callable[[Files], bytes]


@PACKED
@pytest.mark.parametrize("folder", ["", "top/", "./", "a/b/"])
def test_an_archive_gives_what_its_folder_gives(
    packed: Packed, folder: str, tmp_path: Path
) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    expected = load_workload(tmp_path / "detections.yaml")
    workload, findings = parse_archive(packed({folder + n: t for n, t in FILES.items()}))
    assert not findings
    assert workload is not None
    assert workload.name == "detections"
    assert [query.name for query in workload.queries] == ["A", "B", "C", "two", "one"]
    assert workload.queries == expected.queries
    assert workload.stream == expected.stream
    assert [rule.place for rule in workload.refused] == ["rules/deep/bad.yml"]
    assert workload.refused[0].reason.startswith("no YAML: ")


def test_paths_lead_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "secret.yml").write_text(SIGMA.format(title="A"))
    for path in (str(tmp_path / "secret.yml"), f"..{tmp_path}/*", "../../../**/*.yml", "~/*"):
        text = f"stream: {{time: ts}}\nrules:\n- sigma: {path!r}\n"
        workload, findings = parse_archive(zipped({"w.yaml": text}))
        assert workload is None or not workload.queries
        assert "no file of rules is at" in findings[0].message


def test_events_of_tests_are_not_looked_for_on_the_machine(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("ts\n1\n")
    text = (
        "stream: {time: ts, type: kind}\nqueries: [PATTERN A a RETURN a WITHIN 1 s]\n"
        f"tests: [{{events: {tmp_path / 'e.csv'!s}, expect: none}}]\n"
    )
    workload, findings = parse_archive(zipped({"w.yaml": text}))
    same, others = parse_archive(zipped({"w.yaml": text.replace("e.csv", "none.csv")}))
    assert [f.message for f in findings] == [f.message for f in others]
    assert (workload is None) == (same is None)


@PACKED
def test_the_workload_is_the_document_at_the_top(packed: Packed) -> None:
    files = {"x/workload.yml": "", "x/other.json": "", "x/y/z.yaml": "", ".git/config.yaml": ""}
    written, inside = workload_file(read_archive(packed(files)))
    assert written.name == "x/workload.yml"
    assert [file.name for file in inside] == ["other.json", "workload.yml", "y/z.yaml"]
    for none in ({"a.yml": "", "b.yml": ""}, {"a.txt": ""}, {}):
        with pytest.raises(ArchiveError, match=r"does not say which .* put one workload\.yaml"):
            workload_file(read_archive(packed(none)))


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("a/b.yml", ["a/b.yml"]),
        ("./a//b.yml", ["a/b.yml"]),
        ("a", ["a/b.yml", "a/c/d.yml", "a/c/e/f.yml"]),
        ("a/**", ["a/b.yml", "a/c/d.yml", "a/c/e/f.yml"]),
        ("a/*", ["a/b.yml"]),
        ("**/d.yml", ["a/c/d.yml"]),
        ("a/**/*.yml", ["a/b.yml", "a/c/d.yml", "a/c/e/f.yml"]),
        ("a/*/[de]*", ["a/c/d.yml"]),
        ("a/.h.yml", ["a/.h.yml"]),
        ("a/.*", ["a/.h.yml"]),
        ("b", []),
        ("../a/b.yml", []),
        ("**/" * 100 + "x", []),
    ],
)
def test_globs_are_those_of_folders(pattern: str, names: list[str], tmp_path: Path) -> None:
    known = ["a/b.yml", "a/c/d.yml", "a/c/e/f.yml", "a/.h.yml"]
    files = [ArchivedFile(name, b"") for name in known]
    assert [file.name for file in matching(files, pattern)[0]] == names


@PACKED
@pytest.mark.parametrize(
    "name", ["/etc/a.yml", "../a.yml", "a/../../b", "C:\\a", "c:/a", "a\\b", "a\nb", "a" * 600]
)
def test_a_path_that_leads_out_is_refused(packed: Packed, name: str) -> None:
    with pytest.raises(ArchiveError, match="no path inside it; pack the folder"):
        read_archive(packed({name: ""}))


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_links_and_devices_of_a_tar_are_refused(kind: bytes) -> None:
    link = tarfile.TarInfo("rules/l.yml")
    link.type, link.linkname = kind, "a.yml"
    with pytest.raises(ArchiveError, match="is a link or a device, no file"):
        read_archive(tarred({"a.yml": "x: 1"}, link))


def test_links_of_a_zip_are_refused() -> None:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        link = zipfile.ZipInfo("rules/l.yml")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(ArchiveError, match="is a link or a device, no file"):
        read_archive(body.getvalue())


@PACKED
def test_what_is_too_large_unpacked_is_refused(
    packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_ARCHIVE_BYTES", 10_000)
    monkeypatch.setattr(archives, "MAX_ARCHIVE_FILES", 5)
    assert len(read_archive(packed({"a": b"0" * 9_000, "b": b"0" * 1_000}))) == 2
    bombs = [{"a": b"0" * 10_001}, {"a": b"0" * 9_000, "b": b"0" * 1_001}]
    many = {str(number): b"" for number in range(6)}
    for files in (*bombs, many, {str(n): b"" for n in range(100)}, {"a": b"0" * 10**6}):
        with pytest.raises(ArchiveError, match="more than 5 files or 0 MiB unpacked; split it"):
            read_archive(packed(files))


def test_a_file_that_is_twice_in_it_is_refused() -> None:
    with pytest.raises(ArchiveError, match="'a' is twice in the archive"):
        read_archive(tarred({"a": "", "./a": ""}))


def test_what_is_no_archive_is_refused() -> None:
    whole = zipped(FILES)
    encrypted = whole.replace(b"\x14\x00\x00\x00\x08", b"\x14\x00\x01\x00\x08")
    assert encrypted != whole
    for body in (
        encrypted,
        b"",
        b"name: x",
        gzip.compress(b"no tar" * 200),
        whole[:-30],
        whole[:200],
    ):
        with pytest.raises(ArchiveError):
            read_archive(body)


@PACKED
def test_damage_is_an_error_of_the_archive(packed: Packed) -> None:
    whole, drawn = packed(FILES), random.Random(7)
    for _ in range(150):
        body = bytearray(whole)
        for _ in range(drawn.randint(1, 4)):
            body[drawn.randrange(2, len(body))] = drawn.randrange(256)
        with contextlib.suppress(ArchiveError):
            parse_archive(bytes(body))


def test_yaml_that_stands_for_too_much_is_a_rule_that_is_not_taken() -> None:
    layers = [
        "l0: &l0 [x]",
        *(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]" for i in range(1, 9)),
    ]
    deep = "[" * 50_000
    files = {**FILES, "rules/bomb.yml": "\n".join(layers), "rules/deep.yml": deep}
    workload, findings = parse_archive(zipped(files))
    assert not findings
    assert workload is not None
    places = ["rules/bomb.yml", "rules/deep.yml", "rules/deep/bad.yml"]
    assert sorted(rule.place for rule in workload.refused) == places
    assert len(workload.queries) == 5
