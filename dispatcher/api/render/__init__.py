"""From what the dispatcher knows to structs of `schemas`: answers, events and problems."""
