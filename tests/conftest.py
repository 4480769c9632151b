"""No test reaches beyond this machine: sockets connect to the loopback only."""

from importlib.util import find_spec

import pytest


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup() -> None:
    """Before each test: the plugin lifts what was refused after each."""
    if find_spec("pytest_socket"):  # the memory probe's tests also run in environments of torch alone
        import pytest_socket  # noqa: PLC0415

        pytest_socket.socket_allow_hosts(["127.0.0.1", "::1"], allow_unix_socket=True)
