"""How to play: which of the surviving policies, and for how long.

A way to play is an exchangeable object beside the elimination rule. It decides what is played, not
what survives: the guarantee of the rule holds under each of them.

``maximal``
    Each maximal policy of the information order for a whole epoch, as in the paper.
``frugal``
    The best survivor by estimate, chosen anew after every step at first, and whenever the data has
    grown by a tenth later.
"""

from iopea.errors import InputError, unknown
from iopea.play.frugal import Frugal
from iopea.play.maximal import Maximal
from iopea.play.player import Player

#: Every way to play by its name; a new one is one more entry.
PLAYERS: dict[str, type[Player]] = {player.name: player for player in (Maximal, Frugal)}


def as_player(play: object) -> Player:
    """A way to play from its name, its class or an instance.

    >>> as_player("maximal").name
    'maximal'
    """
    if isinstance(play, Player):
        return play
    if isinstance(play, type) and issubclass(play, Player):
        return play()
    if not isinstance(play, str):
        raise InputError(f"play is a name, a class or an instance of Player, not {play!r}.")
    if play not in PLAYERS:
        raise unknown("play", play, PLAYERS)
    return PLAYERS[play]()
