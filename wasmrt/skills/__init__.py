"""Skills: folders with a SKILL.md, whose text instructs a model. They are read whole, pinned, and grant nothing."""

from __future__ import annotations

from wasmrt.skills._folder import SKILL_FILE, SkillFiles, read_folder, single_file
from wasmrt.skills._records import SkillTrust
from wasmrt.skills._scan import SkillFinding, scan
from wasmrt.skills._skill import Skill, SkillError, check_skill_name, read_skill
from wasmrt.skills._store import ListedSkill, LoadedSkill, SkillStore
from wasmrt.skills._tools import SkillSources, SkillTools, describe_new

__all__ = [
    "SKILL_FILE",
    "ListedSkill",
    "LoadedSkill",
    "Skill",
    "SkillError",
    "SkillFiles",
    "SkillFinding",
    "SkillSources",
    "SkillStore",
    "SkillTools",
    "SkillTrust",
    "check_skill_name",
    "describe_new",
    "read_folder",
    "read_skill",
    "scan",
    "single_file",
]
