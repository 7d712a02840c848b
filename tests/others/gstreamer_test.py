# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""GStreamer's own tests, with our elements in place of theirs. The sources are fetched and changed in a temporary
folder: names of elements and properties, and what only the original element has."""

import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import sources

HERE = pathlib.Path(__file__).resolve().parent
CORE, BAD = ("gstreamer1.0", "gstreamer"), ("gst-plugins-bad1.0", "gst-plugins-bad")
SECONDS = 60  # for one test of a program
LIMIT = 1200


@dataclasses.dataclass
class Suite:
    project: tuple
    path: str
    changes: list = dataclasses.field(default_factory=list)  # regular expressions and what replaces them
    without: dict = dataclasses.field(default_factory=dict)  # tests that do not apply, and why
    sender: bool = False  # one streams beside it, on the address "others"


IN_PLACE_OF_FAKES = [('"fakesink"', '"gpudirectsink"'), ('"fakesrc"', '"videotestsrc"'),
                     (r'g_object_set \([^;]*"(sizetype|datarate|can-activate-\w+)"[^;]*;', "")]
HANDOFFS = "it counts by fakesink's own properties"
OWN = "it is about an element of its own"
SUITES = {
    "states": Suite(CORE, "tests/check/generic/states.c", without={"test_state_changes_up_failure": OWN}),
    "sinks": Suite(CORE, "tests/check/generic/sinks.c", IN_PLACE_OF_FAKES, {
        "test_fake_eos": "it sends a buffer without caps",
        "test_async_done": HANDOFFS, "test_async_false_seek": HANDOFFS, "test_async_false_seek_in_playing": HANDOFFS}),
    "basesink": Suite(CORE, "tests/check/libs/basesink.c", IN_PLACE_OF_FAKES),
    "basesrc": Suite(CORE, "tests/check/libs/basesrc.c", [
        ('"fakesrc"', '"gpudirectsrc"'), (r'g_object_set \([^;]*"sizetype"[^;]*;', ""),
        (r'g_object_set \(src, "can-activate-\w+"[^;]*;', "")], {
        "basesrc_eos_events_pull*": "our source pushes alone",
        "basesrc_seek_*": "a live source does not seek",
        "basesrc_create_bufferlist": OWN, "basesrc_time_automatic_eos": OWN, "basesrc_negotiate": OWN}, sender=True),
    "shm": Suite(BAD, "tests/check/elements/shm.c", [
        ('"shmsink"', '"gpudirectsink"'), ('"shmsrc"', '"gpudirectsrc"'), ("socket-path", "address"),
        ('"fakesrc"', '"videotestsrc"'), (r'g_object_set \([^;]*"(sizetype|is-live)"[^;]*;', ""),
        (r'gst_event_new_stream_start \("test"\)\);', r"\g<0> gst_pad_push_event (srcpad, gst_event_new_caps "
         '(gst_caps_new_empty_simple ("application/octet-stream")));')], {
        "test_shm_alloc": "it wants shmsink's allocator; ours proposes a pool"}),
    "unixfd": Suite(BAD, "tests/check/elements/unixfd.c", [
        ("unixfdsink socket-path=", "gpudirectsink address=unix:"),
        ("unixfdsrc socket-path=", "gpudirectsrc address=unix:"),
        # Data: what a picture without a size is only unixfd's elements know, and an empty buffer is a gap for ours.
        (r'simple \("video/x-raw"\)', 'simple ("application/octet-stream")'),
        (r"gst_buffer_new \(\)", "gst_buffer_new_allocate (NULL, 1, NULL)"),
        # For GStreamer 1.22.
        (r"gst_meta_register_custom_simple \((.*)\)",
         r"gst_meta_register_custom (\1, (const gchar *[]) { NULL }, NULL, NULL, NULL)"),
        (r"\bmeta->structure\b", "gst_custom_meta_get_structure (meta)")]),
}


def build(suite, text, program):
    """Builds a test from its text with the changes."""
    for pattern, new in suite.changes:
        text = re.sub(pattern, new, text)
    source = program.with_suffix(".c")
    source.write_text(text)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "gstreamer-check-1.0", "gstreamer-base-1.0",
                            "gstreamer-app-1.0"], capture_output=True, text=True, check=True).stdout
    subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-g", "-w", '-DPACKAGE="gpudirect"', "-include",
                    HERE / "elements.h", "-o", program, source, *flags.split()], check=True)


def run(name, suite, archive, folder):
    """What is wrong, or None."""
    program = folder / name
    build(suite, archive.file(*suite.project, suite.path).read_text(), program)
    log = folder / f"{name}.log"
    env = os.environ | {"XDG_RUNTIME_DIR": str(folder), "CK_DEFAULT_TIMEOUT": str(SECONDS), "GST_DEBUG": "check:5",
                        "GST_DEBUG_FILE": str(log), "GST_DEBUG_NO_COLOR": "1", "GST_STATE_IGNORE_ELEMENTS": "",
                        "GST_CHECKS_IGNORE": ",".join(suite.without)}
    sender = None
    if suite.sender:
        sender = subprocess.Popen(["gst-launch-1.0", "-q", "videotestsrc", "is-live=true", "!", "gpudirectsink",
                                   "address=others"], env=os.environ | {"XDG_RUNTIME_DIR": str(folder)})
    try:
        done = subprocess.run([program], env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=LIMIT)
    finally:
        if sender:
            sender.kill()
            sender.wait()
    counts = re.search(r"Checks: (\d+), Failures: (\d+), Errors: (\d+)", done.stdout)
    if not counts or int(counts[1]) == 0:
        return f"no test ran:\n{done.stdout}"
    failed = int(counts[2]) + int(counts[3])
    print(f"{name}: {int(counts[1]) - failed} passed, {failed} failed; {len(suite.without)} left out", flush=True)
    for test, why in suite.without.items():
        print(f"    {test}: {why}", flush=True)
    if failed or done.returncode:
        return done.stdout
    # states takes the elements from the registry, where there may be none.
    if name == "states" and "testing element gpudirectsink" not in log.read_text(errors="replace"):
        return "it has found none of our elements"
    return None


def main():
    if not shutil.which("pkg-config") or subprocess.run(["pkg-config", "--exists", "gstreamer-check-1.0"]).returncode:
        print("skipped: there is no gstreamer-check-1.0 (Debian: apt install libgstreamer1.0-dev)")
        return 77
    wrong, missing = {}, {}
    with tempfile.TemporaryDirectory(prefix="gpud-") as folder:
        archive = sources.Archive(folder)
        for name, suite in SUITES.items():
            try:
                wrong[name] = run(name, suite, archive, pathlib.Path(folder))
            except sources.Missing as why:
                missing[name] = why
    for name, why in missing.items():
        print(f"{name}: skipped: {why}")
    for name, why in wrong.items():
        if why:
            print(f"{name} failed:\n{why}", file=sys.stderr)
    return 1 if any(wrong.values()) else 77 if missing and not wrong else 0


if __name__ == "__main__":
    sys.exit(main())
