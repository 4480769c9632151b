"""The connection: answers requests that make no sense instead of leaving the editor waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pygls.exceptions import JsonRpcException, JsonRpcInternalError
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.protocol.json_rpc import JsonRPCRequestMessage

from remat import __version__
from remat.lsp.log import Log
from remat.lsp.requests import OURS

if TYPE_CHECKING:
    from pygls.server import ServerErrors
    from pygls.workspace import Workspace


class Protocol(LanguageServerProtocol):
    @property
    def was_shut_down(self) -> bool:
        return self._shutdown

    def take_workspace(self, workspace: Workspace) -> None:
        """Use these documents instead of those that pygls would keep."""
        self._workspace = workspace

    def structure_message(self, data: dict[str, object]) -> object:
        method, request = data.get("method"), data.get("id")
        if method in OURS and isinstance(request, int | str):  # pygls would copy a large text to make an object of it
            return JsonRPCRequestMessage(request, str(method), str(data.get("jsonrpc")), data.get("params"))
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            request = data.get("id")
            if isinstance(request, int | str) and "method" in data:
                self._send_response(request, error=error.to_response_error())
            raise


class Server(LanguageServer):
    """The connection with its log: an error is one line there, not a message on the screen for each."""

    protocol: Protocol

    def __init__(self) -> None:
        super().__init__("remat", __version__, protocol_cls=Protocol, max_workers=1)
        self.log = Log(self.window_log_message)

    def report_server_error(self, error: Exception, source: ServerErrors) -> None:
        if isinstance(error, JsonRpcException) and not isinstance(error, JsonRpcInternalError):
            self.log.write("warning", f"the editor sent what cannot be answered: {error.message or error}")
        else:
            self.log.unexpected(error, f"handling a message ({source.__name__})")
