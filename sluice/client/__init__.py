"""The ACP client: start an agent, talk to it over the wire, and show it on a terminal."""
