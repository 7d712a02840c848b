# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The page of gpudirect-monitor in a real browser: channels that come, lose frames and die; names that look like
markup; a phone's width; the keyboard and what a screen reader is told; a monitor that ends and comes back; and the
token."""

import os
import pathlib
import shutil
import signal
import sys
import tempfile

from browser import Browser
from monitors import Monitor, Pipelines, wait_for_frames
from tool import check, skip, wait_for

TOKEN = "a-token-of-this-test-0123456789"
NAME = "<img src=x>"  # of a receiver; 15 letters at most

if not shutil.which("gst-launch-1.0"):
    skip("gst-launch-1.0 is not installed (gstreamer1.0-tools)")
if Browser.missing:
    skip(Browser.missing)

runtime = tempfile.TemporaryDirectory()
os.environ["XDG_RUNTIME_DIR"] = runtime.name
os.environ["LC_ALL"] = "C.UTF-8"
shots = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None  # a folder for screenshots


def text(browser, selector):
    return browser.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent).join('\\n')",
                       selector)


def wait_for_text(browser, selector, words):
    return wait_for(f"{words!r} in {selector}", lambda: words in text(browser, selector))


def shoot(browser, name):
    if shots:
        browser.screenshot(shots / f"{name}.png", whole=True)


def check_names(browser):
    """What a screen reader is told: everything that has the focus, and every picture, has a name."""
    nodes = browser.devtools("Accessibility.getFullAXTree")["nodes"]
    roles = {}
    for node in nodes:
        if node.get("ignored"):
            continue
        role, name = node.get("role", {}).get("value"), node.get("name", {}).get("value", "")
        focusable = any(one["name"] == "focusable" and one["value"]["value"] for one in node.get("properties", []))
        roles.setdefault(role, []).append(name)
        if (focusable and role != "RootWebArea") or role in ("image", "img", "button", "textbox", "link", "article"):
            check(name.strip(), f"a {role} without a name")
    check({"banner", "main", "navigation", "heading", "article"} <= set(roles), f"the roles are {sorted(roles)}")
    levels = browser.run("return [...document.querySelectorAll('h1, h2, h3, h4')].map((one) => Number(one.tagName[1]))")
    check(levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:])),
          f"the headings are {levels}")
    same = browser.run("const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);"
                       "return ids.filter((one, i) => ids.indexOf(one) !== i)")
    check(not same, f"{same} are there twice")


def check_contrast(browser):
    """4.5 : 1 at least, of every text on what is behind it, in both schemes."""
    for scheme in ("dark", "light"):
        browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        low = browser.run("""
            const read = (color) => color.match(/[\\d.]+/g).map(Number);
            const light = (color) => read(color).slice(0, 3).map((part) => part / 255)
                .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
                .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
            const behind = (one) => {
                for (; one; one = one.parentElement) {
                    const color = getComputedStyle(one).backgroundColor;
                    if ((read(color)[3] ?? 1) === 1) return color;
                }
                return 'rgb(255, 255, 255)';
            };
            return [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() &&
                [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim())).map((one) => {
                const style = getComputedStyle(one), svg = one instanceof SVGElement;
                const [a, b] = [light(svg ? style.fill : style.color), light(behind(one))].sort((x, y) => y - x);
                return [one.tagName, one.textContent.slice(0, 30), (a + 0.05) / (b + 0.05)];
            }).filter((one) => one[2] < 4.5)""")
        check(not low, f"hard to read, {scheme}: {low}")


def check_phone(browser):
    browser.resize(360, 740)
    wait_for("the topology fits", lambda: browser.run(
        "return document.querySelector('#topology svg').viewBox.baseVal.width < 360"))
    size = browser.run("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    check(size[0] <= size[1] == 360, f"360 pixels wide, it scrolls sideways: {size}")
    wide = browser.run("return [...document.querySelectorAll('body *')].filter((one) => one.checkVisibility() && "
                       "one.getBoundingClientRect().right > 361 && !one.closest('svg')).map((one) => one.outerHTML)")
    check(not wide, f"beyond the edge: {wide[:3]}")
    shoot(browser, "phone")
    browser.resize(1280, 900)


def check_keyboard(browser):
    browser.run("document.activeElement.blur(); window.scrollTo(0, 0)")
    seen = []
    for _ in range(5):
        browser.press("\ue004")  # Tab
        seen.append(browser.run("return document.activeElement.textContent.trim().slice(0, 30)"))
    check(seen[:4] == ["Skip to the channels", "Channels", "Topology", "Events"], f"Tab leads to {seen}")
    check(browser.run("return document.activeElement.id") == "events", "the list of events cannot be scrolled by keys")
    # It stays where it is while the page changes.
    before = text(browser, ".rate")
    wait_for("a change", lambda: browser.run("return document.querySelector('dd:nth-of-type(1)') && true") and before)
    check(browser.run("return document.activeElement.id") == "events", "the focus is lost")


def check_sound(browser, pipelines):
    pipelines.launch("audiotestsrc", "is-live=true", "!", "audio/x-raw,format=S16LE,rate=48000,channels=2,"
                     "layout=interleaved", "!", "gpudirectsink", "address=cam2/audio")
    wait_for_text(browser, "article", "48 kHz, 2 channels, S16LE")
    wait_for("its levels", lambda: browser.run(
        "return [...document.images].some((one) => one.alt === 'Levels of cam2/audio' && one.naturalWidth > 0)"))


def check_holes(browser):
    """Cards of different heights stand one below the other, with the same gap."""
    browser.resize(1280, 900)
    gaps = browser.run("""
        const boxes = [...document.querySelectorAll('article')].map((one) => one.getBoundingClientRect());
        return boxes.flatMap((box) => {
            const below = boxes.filter((one) => Math.abs(one.left - box.left) < 2 && one.top > box.top)
                .sort((a, b) => a.top - b.top)[0];
            return below ? [below.top - box.bottom] : [];
        })""")
    check(gaps and max(gaps) < 24, f"the gaps between cards are {gaps}")


def check_troubles(browser):
    """The head counts the cards that are not well."""
    cards, words = browser.run("return [document.querySelectorAll('.title .bad, .title .warn').length, "
                               "document.getElementById('troubles').textContent]")
    check(words == {0: "no trouble", 1: "1 trouble"}.get(cards, f"{cards} troubles"), f"{cards} cards are {words!r}")


def check_page(browser, monitor):
    with Pipelines() as pipelines:
        strange = pathlib.Path(runtime.name) / NAME
        strange.symlink_to(shutil.which("gst-launch-1.0"))
        browser.open(monitor.url)
        wait_for_text(browser, "#summary", "0 channels")
        sender = pipelines.send("cam1")
        pipelines.send("cam2", "NV12", "ball")
        slow = pipelines.receive("cam1", program=strange)
        pipelines.receive("cam2")
        for address in ("cam1", "cam2"):
            wait_for_frames(monitor, address, 1)
            wait_for(f"a picture of {address}", lambda: browser.run(
                "const image = document.querySelector(`img[alt='Picture of ${arguments[0]}']`);"
                "return image && !image.hidden && image.naturalWidth > 0", address))
        wait_for_text(browser, "article h4", NAME)
        check(not browser.run("return document.querySelectorAll('img:not([alt]), img[src=x]').length"),
              "a name became markup")
        check(NAME in text(browser, "#topology text"), "the topology has not the receiver")
        wait_for_text(browser, "dl", "≤")
        wait_for_text(browser, "article", "UYVY 640×360 at 50")
        check_sound(browser, pipelines)
        check_holes(browser)
        check_troubles(browser)
        wait_for("a line in a chart", lambda: browser.run(
            "return document.querySelector('.chart .values').getAttribute('d').includes('L')"))
        check_names(browser)
        check_contrast(browser)
        shoot(browser, "desktop")
        check_phone(browser)
        check_keyboard(browser)

        slow.send_signal(signal.SIGSTOP)
        wait_for_text(browser, "#events", "loses frames")
        wait_for_text(browser, "dd.warn", "replaced")
        wait_for_text(browser, "#alert", "loses frames")
        wait_for("a channel whose receiver loses all is no good one", lambda: browser.run(
            "return [...document.querySelectorAll('article')].some((one) => "
            "one.querySelector('.title .bad')?.textContent.startsWith('Loses '))"))
        check_troubles(browser)
        shoot(browser, "loss")
        slow.send_signal(signal.SIGCONT)
        sender.send_signal(signal.SIGSTOP)
        wait_for_text(browser, ".bad", "No answer")
        check_names(browser)
        sender.send_signal(signal.SIGCONT)
        sender.kill()
        wait_for_text(browser, ".bad", "Died")
        wait_for_text(browser, "article", "Gone since ")
        wait_for_text(browser, ".waiting", "waits since")
        wait_for_text(browser, "#events", "has died, without a goodbye")
        check_troubles(browser)
        check(text(browser, "figcaption").count("Died") == 1, "the picture's place says something else")
        check("waits" in text(browser, "#topology text"), "the topology has not the receiver that waits")
        check_names(browser)
        check_contrast(browser)
        shoot(browser, "gone")
        check_phone(browser)
        browser.run("document.querySelector(`button[aria-label='Dismiss cam1']`).click()")
        wait_for_text(browser, "article", "It was never there")
        slow.kill()
        wait_for("the card goes with its receiver", lambda: "cam1" not in text(browser, "h3"))
        check("cam2" in text(browser, "h3"), "the other channel")
        check(not browser.log_lines(), "the browser complains")


def check_return(browser, monitor):
    """On its port, as a program that was restarted."""
    monitor.end()
    wait_for_text(browser, "#trouble", "No answer from the monitor")
    again = Monitor(listen=f"127.0.0.1:{monitor.port}")
    try:
        wait_for("it is back", lambda: text(browser, "#trouble") == "")
        browser.log_lines()  # of the requests in between
    finally:
        again.kill()


def check_login(browser):
    token = pathlib.Path(runtime.name) / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    monitor = Monitor("--token-file", str(token))
    give = ("document.getElementById('token').value = arguments[0];"
            "document.querySelector('#login button').click()")
    try:
        browser.open(monitor.url)
        wait_for("it asks for the token", lambda: browser.run("return !document.getElementById('login').hidden"))
        check_names_of_login(browser)
        browser.run(give, "another-token-0123456789")
        wait_for_text(browser, "#trouble", "not the token")
        browser.run(give, TOKEN)
        wait_for_text(browser, "#summary", "0 channels")
        wait_for("the form goes", lambda: browser.run("return document.getElementById('login').hidden"))
        check(TOKEN not in browser.run("return location.href + document.cookie + document.body.innerHTML"),
              "the token is in the page")
    finally:
        monitor.kill()


def check_names_of_login(browser):
    check(browser.run("return document.getElementById('token').labels.length") == 1, "the field has no label")


monitor = Monitor()
browser = Browser()
try:
    browser.resize(1280, 900)
    check_page(browser, monitor)
    check_return(browser, monitor)
    check_login(browser)
finally:
    browser.close()
    monitor.kill()
