# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""If a process dies during a measurement, the cause is named, and neither a process nor a file is left."""

import os
import signal

from tool import SMALL, Running, check

LONG = [*SMALL, "--fps", "20", "--frames", "20", "--warmup", "2000", "--receivers", "2"]


def check_death(role, text):
    bench = Running(*LONG)
    family = bench.wait_for_receivers(2)
    os.kill(family[role][0], signal.SIGKILL)
    status, err = bench.end()
    check(status == 1 and text in err and "signal 9" in err, f"a dead {role}: {status}, {err!r}")


check_death("receiver", "the receiver 1")
check_death("sender", "the sender")

bench = Running(*LONG)
bench.wait_for_receivers(2)
bench.process.send_signal(signal.SIGTERM)
status, err = bench.end()
check(status == 1 and "interrupted by signal 15" in err, f"SIGTERM: {status}, {err!r}")

bench = Running(*LONG)
bench.wait_for_receivers(2)
bench.process.kill()
status, err = bench.end()
check(status == -signal.SIGKILL, f"SIGKILL: {status}")
