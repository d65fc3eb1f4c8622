"""The oracle: every value of a forward, recorded by plain torch on a plain transformers model.

It shares nothing with the library but the checkpoint folder: no tracing framework, no spec, no address.
Modules are watched with torch hooks; what happens inside attention and inside the experts is watched by
registering functions of our own with transformers, and inside a recurrent
mixer by listening to its kernel. What each recording means is data,
one entry per mechanism (`mechanisms.py`), so that a family whose parts are known needs no entry at all.
"""

from oracle.answers import Answers, UnknownMechanism, answers
from oracle.recording import Recording, load, record
from oracle.recurrence import REPLAYED

__all__ = ["REPLAYED", "Answers", "Recording", "UnknownMechanism", "answers", "load", "record"]
