"""Skills: what a server teaches, and what a host of skills needs. Each name is imported on first use.

Example:
    from dragoman import Server
    from dragoman.skills import Skill

    server = Server("shop")
    server.add_skills("skills")
    server.add_skill(Skill("refunds", "How to refund a payment.", "Ask for the number of the order first."))
"""

from typing import TYPE_CHECKING

from dragoman.runtime.lazy import lazy

if TYPE_CHECKING:
    from dragoman.client.extensions.skills import AsyncBoundSkill as AsyncBoundSkill
    from dragoman.client.extensions.skills import BoundSkill as BoundSkill
    from dragoman.protocol.official.skills import ID as ID
    from dragoman.protocol.official.skills import MAX_BYTES as MAX_BYTES
    from dragoman.protocol.official.skills import MAX_FILES as MAX_FILES
    from dragoman.server.extensions.skill_files import Skill as Skill
else:
    __getattr__, __dir__ = lazy()
