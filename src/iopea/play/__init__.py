"""How to play: which of the surviving policies, and for how long.

A way to play is an exchangeable object beside the elimination rule. It decides what is played, not
what survives: the guarantee of the rule holds under each of them.

``maximal``
    Each maximal policy of the information order for a whole epoch, as in the paper.
``frugal``
    The best survivor by estimate, chosen anew after every step at first, and whenever the data has
    grown by a tenth later.
"""

from iopea.play.frugal import Frugal
from iopea.play.maximal import Maximal
from iopea.play.player import Player
from iopea.registry import Registry

#: Every way to play by its name; a new one is one more entry.
PLAYERS: Registry[Player] = Registry("play", "iopea.players", Player, (Maximal, Frugal))


def as_player(play: object) -> Player:
    """A way to play from its name, its class or an instance.

    >>> as_player("maximal").name
    'maximal'
    """
    return PLAYERS.made_of(play)
