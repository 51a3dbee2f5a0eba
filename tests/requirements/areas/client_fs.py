from __future__ import annotations

from tests.requirements.manifest import area

AREA = area(
    "client-fs",
    {
        "client-fs.gate.table": "Which file tools there are follows from the client's two capabilities.",
        "client-fs.gate.filters-apply": "The file's filters still apply.",
        "client-fs.gate.deferred-too": "Deferred discovery hides the same tools.",
        "client-fs.gate.hidden-call": "A hidden tool cannot be called by name.",
        "client-fs.fallback.never": "The host's file is never a substitute.",
        "client-fs.read.client-text": "Reading shows the client's text, unsaved too.",
        "client-fs.read.multiple-order": "Several files are read in the order asked for.",
        "client-fs.read.errors-per-file": "One bad file does not spoil the others.",
        "client-fs.read.cancel-stops-further": "After a cancel nothing more is read.",
        "client-fs.read.text-only": "Only text is promised and read.",
        "client-fs.request.shape": "Requests carry session, absolute path and sane bounds.",
        "client-fs.request.any-error-is-tool-error": "Any bad answer fails the tool, not the turn.",
        "client-fs.host.search-and-directories": "Searching and listing stay on the host.",
        "client-fs.limits.frame": "An answer that is too large fails that read only.",
        "client-fs.scope.not-authorization": "Being able to write is not being allowed to.",
    },
)
