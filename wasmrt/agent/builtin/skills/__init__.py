"""Skills: folders with a SKILL.md that instructs a model. Installed skills are pinned; a skill grants nothing."""

from __future__ import annotations

from wasmrt.agent.builtin.skills._folder import SKILL_FILE, SkillFiles, SkillTrust, read_folder, single_file
from wasmrt.agent.builtin.skills._skill import (
    Skill,
    SkillError,
    SkillFinding,
    check_findings,
    check_skill_name,
    read_skill,
    scan,
)
from wasmrt.agent.builtin.skills._store import ListedSkill, LoadedSkill, SkillStore
from wasmrt.agent.builtin.skills._tools import SkillSources, SkillTools, describe_new

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
    "check_findings",
    "check_skill_name",
    "describe_new",
    "read_folder",
    "read_skill",
    "scan",
    "single_file",
]
