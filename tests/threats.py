"""Every threat we know of, where it is written down, and the tests that hold it off.

A test is `file::function` below tests/; an attack is one of wasmrt.testing.attacks, run by escape/test_attacks.py.
test_threats.py fails when a threat has neither, when one of them does not exist, or when a hostile test has no threat.
"""

from __future__ import annotations

from dataclasses import dataclass

from wasmrt.testing.attacks import ANSWERS, COMPONENTS, CPU, HOST, MEMORY, REACH, SERVERS, VALUES, Attack

SEED = "seed 001, section 6"
HOSTILE = "security facts, section 4"
OURS = "our own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Threat:
    threat: str
    source: str
    tests: tuple[str, ...] = ()
    attacks: tuple[str, ...] = ()


def _names(*attacks: Attack) -> tuple[str, ...]:
    return tuple(attack.name for attack in attacks)


_LIMITS = "escape/test_limits.py::"
_ANSWERS = "escape/test_answers.py::"
_REACH = "escape/test_reach.py::"

THREATS = (
    Threat(
        threat="CPU exhaustion",
        source=SEED,
        tests=(_LIMITS + "test_a_fuel_error_tells_limit_use_and_setting",),
        attacks=("loop-until-fuel", "recursion", "indirect-recursion"),
    ),
    Threat(
        threat="memory exhaustion",
        source=SEED,
        tests=(
            _LIMITS + "test_a_tool_that_needs_more_memory_than_its_limit_says_how_much",
            _LIMITS + "test_a_second_memory_in_one_module_counts_too",
        ),
        attacks=_names(*MEMORY),
    ),
    Threat(
        threat="infinite loops, wherever guest code runs",
        source=SEED,
        tests=(
            _LIMITS + "test_a_deadline_error_tells_limit_use_and_setting",
            _LIMITS + "test_cancelling_stops_a_sleeping_guest_and_frees_its_permit",
            _LIMITS + "test_closing_the_runtime_ends_every_call_with_a_typed_error",
        ),
        attacks=_names(*(attack for attack in CPU if "recursion" not in attack.name and "fuel" not in attack.name)),
    ),
    Threat(
        threat="filesystem access",
        source=SEED,
        tests=(
            "workspace/test_workspace_reader.py::test_a_path_that_is_not_a_granted_file_is_refused_with_its_reason",
        ),
        attacks=("open-files", "read-workspace-without-grant"),
    ),
    Threat(
        threat="network access",
        source=SEED,
        tests=(
            _REACH + "test_a_refused_socket_names_the_way_that_would_work",
            _REACH + "test_a_refused_lookup_names_what_was_looked_up_and_asks_no_resolver",
            _REACH + "test_the_same_refusal_is_on_record_once",
            "egress/test_fetch.py::test_nothing_is_fetched_without_a_grant",
            "egress/test_addresses.py::test_every_row_of_the_ssrf_corpus_comes_out_as_expected_through_the_gateway",
        ),
        attacks=("open-socket", "look-up-names", "request-without-grant"),
    ),
    Threat(
        threat="credential exposure",
        source=SEED,
        tests=(
            "egress/test_credentials.py::test_a_secret_goes_to_its_hosts_and_paths_only",
            "egress/test_credentials.py::test_no_echo_brings_a_secret_back",
            "secrets/test_secret_type.py::test_no_way_of_printing_a_secret_shows_it",
        ),
        attacks=("ask-for-secrets", "read-environment", "read-stdin"),
    ),
    Threat(
        threat="secret exfiltration",
        source=SEED,
        tests=(
            _ANSWERS + "test_a_secret_in_an_error_text_is_withheld",
            "egress/test_request_headers.py::test_a_token_in_the_guests_own_text_does_not_leave",
        ),
    ),
    Threat(
        threat="log spam",
        source=SEED,
        tests=(
            _ANSWERS + "test_a_flood_of_logs_keeps_a_thousand_and_counts_the_rest",
            _ANSWERS + "test_a_long_log_line_is_cut_on_a_character_boundary",
        ),
        attacks=("log-flood", "log-of-fifty-megabytes"),
    ),
    Threat(
        threat="path traversal",
        source=SEED,
        tests=("workspace/test_workspace_reader.py::test_no_path_reads_beyond_its_grant",),
    ),
    Threat(
        threat="a trapped instance that is used again",
        source=SEED,
        tests=("escape/test_component_model.py::test_a_trap_poisons_its_own_call_only",),
        attacks=("realloc-traps", "trap-in-start"),
    ),
    Threat(threat="side channels between calls", source=SEED, attacks=("state-between-calls", "fine-clock")),
    Threat(
        threat="rate abuse",
        source=SEED,
        tests=("rates/test_rates.py::test_threads_never_overrun_a_window",),
    ),
    Threat(
        threat="tampering with stored components",
        source=SEED,
        tests=(
            "catalog/test_catalog_versions.py::test_changed_bytes_are_found_by_every_load_and_by_verify",
            "engine/test_cache.py::test_a_tampered_file_is_reported_once_and_never_loaded",
        ),
    ),
    Threat(
        threat="calling tools by their real names",
        source=SEED,
        tests=(
            "capabilities/test_capability_decisions.py::test_a_tool_is_reached_by_its_alias_only_and_its_name_is_never_told",
        ),
        attacks=("invoke-without-grant",),
    ),
    Threat(
        threat="memory that the guest makes the host allocate: handles, random bytes, streams, lists",
        source=HOSTILE,
        tests=(
            _LIMITS + "test_a_million_host_calls_are_the_most_a_guest_makes",
            "escape/test_attacks.py::test_attacks_leave_no_memory_threads_or_descriptors_behind",
            "escape/test_soak.py::test_calls_mixed_with_attacks_leave_nothing_behind",
            "wasi/test_streams.py::test_output_over_its_cap_is_dropped_and_counted_and_the_guest_goes_on",
        ),
        attacks=(
            *("ten-thousand-pollables", "poll-one-a-million-times", "import-in-a-loop", "hundred-thousand-handles"),
            "list-of-records",
            "method-of-fifty-megabytes",
            *("leaked-handles", "stdout-flood", "stdout-of-sixty-megabytes", "zeroes-without-end"),
            *("random-flood", "random-without-end"),
        ),
    ),
    Threat(
        threat="a guest asleep inside a host call, where neither fuel nor epochs reach it",
        source=HOSTILE,
        tests=(_LIMITS + "test_sixty_four_sleepers_hold_up_nobody_else",),
        attacks=("sleep-an-hour", "sleep-for-ever", "poll-an-hour", "poll-nothing"),
    ),
    Threat(
        threat="bulk operations that run past the epoch",
        source=HOSTILE,
        attacks=("fill-in-a-loop", "copy-in-a-loop", "fill-a-gibibyte"),
    ),
    Threat(
        threat="tables and type machinery that crash the engine",
        source=HOSTILE,
        attacks=("table-growth", "huge-first-table", "tables-without-end"),
    ),
    Threat(
        threat="start, realloc and post-return run guest code",
        source=HOSTILE,
        tests=("escape/test_component_model.py::test_what_breaks_before_any_call_is_an_instantiation_error",),
        attacks=("loop-in-start", "loop-in-realloc", "loop-in-post-return", "realloc-points-outside"),
    ),
    Threat(
        threat="lifting, lowering and transcoding bugs at the border",
        source=HOSTILE,
        tests=(
            "escape/test_component_model.py::test_what_the_specification_calls_a_trap_is_a_typed_error",
            "escape/test_component_model.py::test_what_the_specification_calls_invalid_is_a_typed_error",
            "escape/test_component_model.py::test_what_the_specification_calls_a_link_error_is_a_typed_error",
            "escape/test_component_model.py::test_features_that_are_off_stay_off",
            "escape/test_component_model.py::test_async_components_are_refused",
            "escape/test_component_model.py::test_what_the_specification_calls_malformed_is_a_typed_error",
        ),
        attacks=("argument-outside-memory", "enum-out-of-range", "exit"),
    ),
    Threat(
        threat="handles that are forged, stale or of another kind",
        source=HOSTILE,
        tests=("wasi/test_streams.py::test_the_handles_of_two_calls_are_strangers",),
        attacks=("dropped-twice", "forged-handle", "handle-of-another-kind"),
    ),
    Threat(
        threat="denial of service while compiling",
        source=HOSTILE,
        tests=(
            _LIMITS + "test_a_compile_of_a_hundred_thousand_functions_starves_no_call",
            "component/test_counts.py::test_a_count_at_its_bound_passes_and_one_more_is_refused",
            "component/test_counts.py::test_the_count_of_instances_is_what_expanding_them_gives",
            "component/test_counts.py::test_a_product_of_two_counts_over_its_bound_is_refused",
            "call/test_prepare_beside_compiles.py::"
            "test_what_is_compiled_already_is_ready_while_every_permit_to_compile_is_taken",
        ),
        attacks=_names(*(attack for attack in COMPONENTS if attack.name != "trap-in-start")),
    ),
    Threat(
        threat="error text that drives a terminal or floods its reader",
        source=HOSTILE,
        tests=(
            _ANSWERS + "test_an_error_text_from_a_guest_cannot_drive_a_terminal",
            _ANSWERS + "test_an_error_text_is_cut",
        ),
        attacks=("terminal-escapes", "terminal-escapes-in-utf-8", "error-of-fifty-megabytes"),
    ),
    Threat(
        threat="exceptions of host functions that cross into another call",
        source=HOSTILE,
        tests=(
            "engine/test_calls.py::test_whatever_a_host_function_raises_stays_in_its_own_call",
            "engine/test_calls.py::test_failures_of_many_threads_never_mix",
        ),
    ),
    Threat(
        threat="header and response bombs",
        source=HOSTILE,
        tests=(
            "egress/test_hostile_servers.py::test_too_many_headers_are_refused",
            "escape/test_attacks.py::test_a_server_whose_answer_gets_through_is_not_held",
        ),
        attacks=_names(*SERVERS),
    ),
    Threat(
        threat="answers that are too large, malformed or nearly what they should be",
        source=OURS,
        tests=(
            _LIMITS + "test_an_output_over_its_cap_is_refused_and_one_at_the_cap_is_not",
            "escape/test_attacks.py::test_an_attack_ends_typed_and_in_time_and_the_next_call_works",
            "escape/test_attacks.py::test_an_outcome_that_was_not_expected_does_not_count_as_held",
        ),
        attacks=_names(*(attack for attack in ANSWERS if "escapes" not in attack.name)),
    ),
    Threat(
        threat="values by the million, each of which becomes an object and text on the host's side",
        source=OURS,
        tests=("border/test_prepare.py::test_a_call_passes_so_many_values_and_no_more",),
        attacks=_names(*VALUES),
    ),
    Threat(
        threat="a schema that is small and takes hours, or gigabytes, for one text",
        source=OURS,
        tests=(
            "schema/test_validation_work.py::"
            "test_a_long_text_that_fails_ten_thousand_parts_is_answered_in_little_memory",
            "schema/test_validation_work.py::test_characters_times_patterns_are_refused_before_the_work",
            "schema/test_validation_work.py::test_what_passes_as_a_schema_takes_params_ever_after",
        ),
    ),
    Threat(
        threat="params that break the host before they reach the guest",
        source=OURS,
        tests=(
            _ANSWERS + "test_params_that_are_no_sound_json_never_reach_the_guest",
            _ANSWERS + "test_params_nested_ten_thousand_deep_as_objects_are_refused",
            _ANSWERS + "test_params_that_contain_themselves_are_refused",
        ),
    ),
    Threat(
        threat="audit records that a guest makes grow",
        source=OURS,
        tests=(_REACH + "test_a_thousand_refused_lookups_leave_a_bounded_record",),
    ),
    Threat(
        threat="errors that tell a guest or an agent about the host",
        source=OURS,
        tests=("escape/test_attacks.py::test_an_attack_that_is_stopped_learns_nothing_of_the_host",),
    ),
    Threat(
        threat="an import that nobody decided about",
        source=OURS,
        tests=(
            "test_imports.py::test_everything_a_guest_can_import_is_listed_with_what_bounds_it",
            "test_imports.py::test_what_answers_has_a_type_that_is_checked",
        ),
    ),
    Threat(
        threat="an answer that hides an injected secret behind a bound of the scanner",
        source=OURS,
        tests=(
            "egress/test_not_scanned.py::test_what_is_behind_a_bound_of_the_scanner_is_withheld_or_found_whole_and_streamed",
            "egress/test_not_scanned.py::test_an_answer_that_cannot_be_opened_is_a_refusal_with_its_reason",
            "leaks/test_more_encodings.py::test_a_secret_is_found_in_each_of_them",
            "leaks/test_more_encodings.py::test_nor_does_a_stream_show_it",
        ),
    ),
    Threat(
        threat="a guest's words that pass for the host's, or carry a token past the scan",
        source=OURS,
        tests=(
            "border/test_what_is_said.py::test_a_code_that_a_guest_chose_is_never_one_of_the_hosts_and_holds_no_token",
            "border/test_what_is_said.py::test_an_error_is_cut_after_the_scan_and_a_token_at_the_cut_is_replaced_whole",
            "border/test_what_is_said.py::test_a_traceback_holds_nothing_that_acts_on_a_terminal",
        ),
        attacks=("token-across-the-cut", "name-for-a-terminal"),
    ),
    Threat(
        threat="waits of the host's own that nobody cuts: a token endpoint, a name server, Redis",
        source=OURS,
        tests=(
            "oauth/test_renewal.py::test_a_silent_endpoint_holds_no_call_beyond_its_deadline_and_is_asked_once",
            "egress/test_shares.py::test_names_that_nobody_answers_for_hold_up_no_other_user",
            "rates/test_rates.py::test_a_silent_redis_is_waited_for_once_and_then_left_alone",
        ),
    ),
)

COVERED_ATTACKS = frozenset(name for threat in THREATS for name in threat.attacks)
KNOWN_ATTACKS = frozenset(_names(*CPU, *MEMORY, *HOST, *REACH, *ANSWERS, *VALUES, *SERVERS, *COMPONENTS))
