# SPDX-FileCopyrightText: 2026 gpudirect authors
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What fails: one class for each status of the library, whose text is the library's error message."""


class Error(Exception):
    """A failure. `status` names it, `native` and `origin` have the number that a driver or the system gave."""

    status = "failed"
    native = 0
    origin = None


class Interrupted(Error):
    """The call was interrupted."""


class Timeout(Error, TimeoutError):
    """The time was over first."""


class Closed(Error):
    """The stream ended in order, or the object was closed."""


class Invalid(Error, ValueError):
    """An argument is wrong."""


class Unsupported(Error):
    """The device, the route or this build cannot do it."""


class NoDevice(Error):
    """There is no such device, driver or card."""


class NoMemory(Error, MemoryError):
    """Out of host or device memory."""


class NoAccess(Error, PermissionError):
    """This user, or this container, may not."""


class PeerLost(Error, ConnectionError):
    """The other side vanished, or broke the protocol."""


class DeviceFailure(Error, OSError):
    """The system or a driver failed."""


class AddressInUse(DeviceFailure):
    """Another sender has the address: the text names it, and says what to do."""


class TakenBack(Error):
    """The bytes of a frame are no longer those of that frame."""

    status = "taken back"


BY_STATUS = {
    "again": Interrupted,
    "timeout": Timeout,
    "closed": Closed,
    "invalid": Invalid,
    "unsupported": Unsupported,
    "no device": NoDevice,
    "no memory": NoMemory,
    "no access": NoAccess,
    "peer": PeerLost,
    "i/o": DeviceFailure,
}
