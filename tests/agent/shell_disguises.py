"""Ways to hide a command in a line, by the trick, with what must be thought of each line. None of them looks harmless
to the checker unless it is: what is quoted is text."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DISGUISES", "LINES"]

DISGUISES: Mapping[str, tuple[tuple[str, str], ...]] = {
    ";": (
        ("ls;rm x", "destructive"),
        ("ls ;rm -rf x", "destructive"),
        ("ls;;rm", "destructive"),
        ("pwd;ls", "unknown"),
        (r"echo \; rm x", "safe"),
        ("echo ';rm x'", "safe"),
    ),
    "&&": (
        ("ls&&rm x", "destructive"),
        ("ls &&\nrm x", "destructive"),
        ("ls\n&& rm x", "destructive"),
        ("true&&make", "unknown"),
        ("echo '&& rm x'", "safe"),
    ),
    "&": (("ls&rm x", "destructive"), ("coproc rm x", "destructive"), ("echo '&'", "safe")),
    "|": (
        ("ls|rm x", "destructive"),
        ("ls |& rm x", "destructive"),
        ("ls 2>&1 | tee x", "destructive"),
        ("echo x | sudo tee /etc/x", "destructive"),
        ("ls |\nxargs rm", "destructive"),
        ("cat x | sort", "unknown"),
        ("echo '| rm x'", "safe"),
    ),
    "$()": (
        ("$(rm x)", "destructive"),
        ("ls $(rm x)", "destructive"),
        ("ls <<< $(rm x)", "destructive"),
        ("ls $(make)", "unknown"),
        ("ls '$(rm x)'", "safe"),
    ),
    "backticks": (
        ("`rm x`", "destructive"),
        ('ls "`rm x`"', "destructive"),
        (r"echo `echo \`rm x\``", "unknown"),
        ("echo '`rm x`'", "safe"),
    ),
    "newlines": (
        ("ls\nrm x", "destructive"),
        ("ls\r\nrm x\r\n", "destructive"),
        ("ls\npwd", "unknown"),
        ("ls \\\n -la", "unknown"),
        ("echo 'ls rm'", "safe"),
    ),
    "here-documents": (
        ("cat <<'E'\nrm x\nE", "unknown"),
        ("cat <<E\n$(rm x)\nE", "destructive"),
        ("cat <<E\n`rm x`\nE", "unknown"),
        ("cat <<-E | bash\n\trm x\n\tE", "destructive"),
        ("python3 <<E\nimport os\nE", "unknown"),
        ("cat <<E > x\nhi\nE", "unknown"),
    ),
    "env X=1": (
        ("env X=1 rm x", "destructive"),
        ("env X=1 Y=2 sudo ls", "destructive"),
        ("env X=1 sh -c 'rm x'", "destructive"),
        ("env -u A X=1 rm x", "destructive"),
        ("env -S 'rm x'", "destructive"),
        ("env -- rm x", "destructive"),
        ("env X=$(rm x) ls", "destructive"),
        ("env X=1 ls", "unknown"),
        ("X=1 ls", "unknown"),
        ("echo env X=1", "safe"),
    ),
    "xargs": (
        ("ls | xargs rm", "destructive"),
        ("find . | xargs -I{} rm {}", "destructive"),
        ("xargs sh -c 'rm x'", "destructive"),
        ("parallel rm ::: x", "destructive"),
        ("xargs ls", "unknown"),
        ("find . -name '*.py' | xargs grep x", "unknown"),
        ("echo xargs rm", "safe"),
    ),
    "find -exec": (
        ("find . -exec sh -c 'rm \"$1\"' _ {} \\;", "destructive"),
        ("find . -execdir rm {} +", "destructive"),
        ("find . -ok rm {} \\;", "destructive"),
        ("find . -fprint x", "unknown"),
        ("find . -name exec", "safe"),
    ),
    "redirections": (
        ("ls > x; rm x", "destructive"),
        (">x rm y", "destructive"),
        ("> x", "unknown"),
        ("ls >| x", "unknown"),
        ("ls &> x", "unknown"),
        ("ls <> x", "unknown"),
        ("ls 2> x", "unknown"),
        ("ls >&2", "unknown"),
        ("exec 3>x", "unknown"),
        ("echo x >> ~/.bashrc", "unknown"),
        ("cat < /dev/tcp/x/1", "unknown"),
        ("echo '> x'", "safe"),
    ),
    "unicode spaces": (
        ("rm\u00a0x", "unknown"),
        ("rm\u2003-rf\u2003x", "unknown"),
        ("ls;\u00a0rm x", "unknown"),
        ("ls\u1680x", "unknown"),
        ("ls\u2009-la", "unknown"),
        ("ls\u202f-la", "unknown"),
        ("ls\u205f", "unknown"),
        ("ls\u3164x", "unknown"),
        ("ls\ufeff", "unknown"),
        ("\ufeffls", "unknown"),
    ),
    "quoting the name": (
        ("'r'm x", "destructive"),
        ('r"m" x', "destructive"),
        ("$'rm' x", "unknown"),
        (r"$'\x72m' x", "unknown"),
        ("rm${IFS}-rf${IFS}x", "unknown"),
        ("X=rm; $X x", "unknown"),
        ("'ls' -la", "safe"),
    ),
    "other programs that run one": (
        ("busybox rm x", "destructive"),
        ("builtin rm x", "destructive"),
        ("setsid rm x", "destructive"),
        ("strace rm x", "destructive"),
        ("watch rm x", "destructive"),
        ("su -c 'rm x'", "destructive"),
        ("trap 'rm x' EXIT", "destructive"),
        ("alias ls='rm x'", "unknown"),
        ("echo busybox rm x", "safe"),
    ),
}
"""Trick -> lines that use it, and lines that only look like it."""

LINES = [pair for pairs in DISGUISES.values() for pair in pairs]
