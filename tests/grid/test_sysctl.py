"""The kernel's answers, through a stand-in for the C function that ctypes really calls."""

import ctypes
import struct
import sys

import pytest

from speedbump.grid import machine, sysctl

PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.c_void_p,
    ctypes.c_size_t,
)
SWAP = struct.pack("=QQQIi", 8 << 30, 5 << 30, 3 << 30, 16384, 1)


def stand_in(values: dict[str, bytes]):
    """A ``sysctlbyname`` as its manual page has it: size alone where there is no buffer, an error for other names."""

    def sysctlbyname(name, buffer, size, new, new_size):
        value = values.get(name.decode())
        if value is None or (buffer and size[0] < len(value)):
            return -1
        if buffer:
            ctypes.memmove(buffer, value, len(value))
        size[0] = len(value)
        return 0

    return PROTOTYPE(sysctlbyname)


@pytest.fixture
def kernel(monkeypatch):
    """Makes the kernel answer with these values, which may change."""

    def answer(**values: bytes) -> None:
        named = {name.replace("__", "."): value for name, value in values.items()}
        function = stand_in(named)
        monkeypatch.setattr(sysctl, "_function", lambda: function)

    return answer


def test_texts_numbers_and_the_struct_of_swap_are_read(kernel):
    kernel(hw__model=b"MacBookAir10,1\0", kern__level=struct.pack("=i", 4), hw__memsize=struct.pack("=Q", 36 << 30))
    assert sysctl.read_text("hw.model") == "MacBookAir10,1"
    assert sysctl.read_int("kern.level") == 4
    assert sysctl.read_int("hw.memsize") == 36 << 30
    assert (sysctl.read_text("hw.nothing"), sysctl.read_int("hw.model"), sysctl.read_swap_bytes()) == (None,) * 3
    kernel(vm__swapusage=SWAP)
    assert sysctl.read_swap_bytes() == 3 << 30
    kernel(vm__swapusage=SWAP[:8])
    assert sysctl.read_swap_bytes() is None


@pytest.mark.skipif(sys.platform != "linux", reason="Linux has no sysctlbyname")
def test_a_system_without_the_function_answers_nothing():
    assert sysctl.read_text("hw.model") is None
    assert sysctl.read_swap_bytes() is None


@pytest.mark.parametrize(
    ("kernel_says", "sw_vers", "python_says", "version"),
    [
        (b"26.1\0", "", "16.1", "26.1"),
        (b"16.1\0", "26.1", "16.1", "26.1"),
        (None, "26.1\n", "16.1", "26.1"),
        (None, "", "16.1", "26.1"),
        (b"15.6.1\0", "", "15.6.1", "15.6.1"),
        (b"10.16\0", "14.8", "10.16", "14.8"),
        (None, "", "", "unknown"),
    ],
)
def test_macos_26_is_never_called_16(kernel, monkeypatch, kernel_says, sw_vers, python_says, version):
    kernel(**({"kern__osproductversion": kernel_says} if kernel_says else {}))
    asked = []

    def output(*command, **variables):
        asked.append((command, variables))
        return sw_vers

    monkeypatch.setattr(machine, "_output", output)
    monkeypatch.setattr(machine.platform, "mac_ver", lambda: (python_says, ("", "", ""), "arm64"))
    assert machine.find_os_version() == version
    assert all(variables == {"SYSTEM_VERSION_COMPAT": "0"} for _, variables in asked)
