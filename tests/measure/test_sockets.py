"""A socket in the folders of tests fits into macOS's sockaddr_un: 104 bytes, the last one 0."""

import os
import tempfile
from multiprocessing import Manager

LONGEST = 103


def test_the_temporary_folders_of_tests_leave_room_for_a_socket(cell_command):
    for folder in (tempfile.gettempdir(), cell_command().environment["TMPDIR"]):
        address = os.path.join(os.path.realpath(folder), "pymp-12345678", "listener-12345678")  # noqa: PTH118
        assert len("/private") + len(os.fsencode(address)) <= LONGEST


def test_a_managers_socket_lies_there():
    """As LitServe starts one."""
    with Manager() as manager:
        assert manager.address.startswith(os.environ["TMPDIR"])
        assert len("/private") + len(os.fsencode(manager.address)) <= LONGEST
