from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "transport",
    {
        "transport.stdio.no-listener": "Serving opens no network socket, and without attaching no listening socket of any kind.",
        "transport.stdio.plain-child": "An ordinary child process on pipes, without a terminal, gets from initialize to a finished prompt.",
        "transport.stdio.streams-events": "Events of a turn leave as single lines while it is still running.",
        "transport.stdio.stdout-pure": "Prints, warnings and debug logs go to stderr; only protocol lines reach stdout.",
        "transport.stdio.children-detached": "Native child processes get neither end of the protocol pipe.",
        "transport.framing.lf-delimits": "A line ends at byte 0x0A and nowhere else, in both directions.",
        "transport.framing.utf8-always": "UTF-8 is spoken whatever the locale is.",
        "transport.framing.lone-surrogate": "Half a surrogate pair crashes nothing and leaves as valid UTF-8.",
        "transport.framing.invalid-utf8": "Broken UTF-8 costs one parse error and nothing more.",
        "transport.framing.crlf-accepted": "CR LF ends a line as well as LF.",
        "transport.framing.blank-lines": "Blank lines are passed over in silence.",
        "transport.framing.leading-bom": "A byte-order mark is skipped at the start of the stream and an error anywhere else.",
        "transport.framing.split-and-joined-reads": "How bytes are cut into reads changes nothing: each message is answered once.",
        "transport.framing.unterminated-last-line": "A last line without its newline still counts at end of input.",
        "transport.limits.large-lines": "Lines up to just under 10 MiB are taken.",
        "transport.limits.inbound-ceiling": "A longer line is skipped unbuffered and answered with the limit; nothing starts and the link stays.",
        "transport.limits.outbound-ceiling": "No line of ours is longer than 10 MiB.",
        "transport.limits.deep-nesting": "Absurdly nested input is refused and never ends the process.",
        "transport.limits.strict-json": "Only JSON proper is read, and NaN and Infinity are never written.",
        "transport.output.single-writer": "Lines of parallel sessions never mix, and each session keeps its order.",
        "transport.output.slow-reader": "With a client that reads nothing the queue is bounded, input is read on and a cancel works.",
        "transport.output.broken-pipe": "A client that closes its reading end cancels the work and ends the process quietly.",
        "transport.output.blocked-write-documented": "A blocked write may delay cleanup but never counts as done; the docs say there is no write deadline.",
        "transport.logging.stderr-clean": "Log lines are UTF-8 and hold neither secrets nor whole messages.",
    },
)
