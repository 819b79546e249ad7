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


_CODE = "agent/code_mode/test_hostile.py::"
_LIMITS = "sandbox/escape/test_limits.py::"
_ANSWERS = "sandbox/escape/test_answers.py::"
_REACH = "sandbox/escape/test_reach.py::"

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
        threat="a model reads in an error how a refusal would be lifted, and asks a person for that",
        source=OURS,
        tests=(
            "sandbox/border/test_call_services.py::"
            "test_a_guest_is_told_what_is_on_record_where_something_else_than_its_grant_holds_it",
            "agent/first_party/test_denials.py::test_a_model_is_told_the_rule_and_not_the_line",
            "sandbox/border/test_call_services.py::test_no_step_that_is_not_on_record_is_told_to_a_guest",
            "runtime/denials/test_policy.py::test_the_line_that_a_denial_names_lets_the_call_through",
        ),
    ),
    Threat(
        threat="a program of the model's gets tools that its caller's view has not, or a person's yes that nobody gave",
        source=OURS,
        tests=(
            _CODE + "test_a_tool_outside_of_the_view_is_had_by_no_spelling",
            _CODE + "test_programs_run_no_programs_and_change_no_tools",
            _CODE + "test_a_tool_that_no_program_calls_is_none_behind_a_wrapper_either",
            _CODE + "test_a_program_that_changes_its_own_world_changes_no_call",
            _CODE + "test_a_denial_by_a_person_is_no_yes_however_often_it_is_asked",
            _CODE + "test_a_call_that_waits_is_not_caught_by_the_program",
            _CODE + "test_calls_after_the_end_reach_nothing",
            _CODE + "test_an_answer_is_not_given_again_to_a_view_that_has_the_tool_no_more",
            _CODE + "test_nobody_but_us_can_make_a_tool_that_gets_the_callers_tools",
        ),
    ),
    Threat(
        threat="a run that waits is continued by another user, with other calls, or twice, or is edited",
        source=OURS,
        tests=(
            _CODE + "test_nobody_goes_on_with_the_run_of_another_user_or_conversation",
            _CODE + "test_a_recording_under_the_name_of_another_user_is_refused",
            _CODE + "test_a_recording_with_another_call_order_or_form_is_refused",
            _CODE + "test_a_recording_that_others_can_read_or_a_link_is_refused",
            _CODE + "test_a_call_that_was_cut_off_is_not_made_twice",
            _CODE + "test_a_run_goes_on_once_at_a_time",
            _CODE + "test_only_so_many_programs_of_a_user_wait",
            _CODE + "test_a_run_survives_its_process_and_expires",
        ),
    ),
    Threat(
        threat="a program of the model's holds its caller: it never ends, fills memory, prints or calls without end",
        source=OURS,
        tests=(
            _CODE + "test_what_a_program_throws_and_returns_ends_it_and_nothing_else",
            _CODE + "test_a_program_that_never_ends_or_takes_everything_is_ended",
            _CODE + "test_printing_without_end_is_cut",
            _CODE + "test_more_calls_than_a_run_may_make_end_it",
            _CODE + "test_huge_arguments_are_refused_before_the_tool",
            _CODE + "test_a_program_is_no_longer_than_it_may_be",
        ),
    ),
    Threat(
        threat="a network that an operator exempts for one tool is reached by another that may ask any public host",
        source=OURS,
        tests=(
            "capabilities/test_entries.py::test_any_public_host_does_not_open_a_network_exempted_for_another_tool",
            "egress/gateway/test_addresses.py::test_every_public_host_reaches_no_exempted_network",
        ),
    ),
    Threat(
        threat="an update moves a login, or what renews its tokens, to another place",
        source=OURS,
        tests=(
            "cli/test_cli_grant.py::test_a_login_that_changes_asks_for_more_and_waits",
            "egress/oauth/test_renewal.py::test_a_refresh_goes_where_the_granted_login_says_and_nowhere_else",
        ),
    ),
    Threat(
        threat="a tool is given more than it asks for by a change of its grant",
        source=OURS,
        tests=(
            "capabilities/test_amendments.py::test_an_added_entry_lies_within_the_request_and_removes_nothing",
            "capabilities/test_amendments.py::test_an_entry_that_the_tool_does_not_request_cannot_be_granted",
        ),
    ),
    Threat(
        threat="a user's name leads to another user's files",
        source=OURS,
        tests=(
            "runtime/call/test_embedding.py::test_no_name_of_a_user_leads_out_of_the_root_or_to_another_user",
            "runtime/workspace/test_user_folders.py::test_no_two_users_share_a_folder",
        ),
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
            "runtime/workspace/test_workspace_reader.py::test_a_path_that_is_not_a_granted_file_is_refused_with_its_reason",
            "sandbox/programs/test_program_writes.py::test_a_program_is_refused_elsewhere_and_that_is_on_record",
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
            "egress/gateway/test_fetch.py::test_nothing_is_fetched_without_a_grant",
            "egress/gateway/test_addresses.py::test_every_row_of_the_ssrf_corpus_comes_out_as_expected_through_the_gateway",
        ),
        attacks=("open-socket", "look-up-names", "request-without-grant"),
    ),
    Threat(
        threat="credential exposure",
        source=SEED,
        tests=(
            "egress/gateway/test_credentials.py::test_a_secret_goes_to_its_hosts_and_paths_only",
            "egress/gateway/test_credentials.py::test_no_echo_brings_a_secret_back",
            "egress/secrets/test_secret_type.py::test_no_way_of_printing_a_secret_shows_it",
        ),
        attacks=("ask-for-secrets", "read-environment", "read-stdin"),
    ),
    Threat(
        threat="secret exfiltration",
        source=SEED,
        tests=(
            _ANSWERS + "test_a_secret_in_an_error_text_is_withheld",
            "egress/gateway/test_request_headers.py::test_a_token_in_the_guests_own_text_does_not_leave",
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
        tests=(
            "runtime/workspace/test_workspace_reader.py::test_no_path_reads_beyond_its_grant",
            "runtime/workspace/test_workspace_writer.py::test_a_path_that_may_not_be_written_is_refused_with_its_reason",
            "runtime/workspace/test_workspace_writer.py::test_no_link_is_followed_not_even_one_that_stays_inside",
            "runtime/workspace/test_workspace_writer.py::test_a_folder_that_keeps_changing_never_lets_a_write_out",
        ),
    ),
    Threat(
        threat="a trapped instance that is used again",
        source=SEED,
        tests=("sandbox/escape/test_component_model.py::test_a_trap_poisons_its_own_call_only",),
        attacks=("realloc-traps", "trap-in-start"),
    ),
    Threat(threat="side channels between calls", source=SEED, attacks=("state-between-calls", "fine-clock")),
    Threat(
        threat="rate abuse",
        source=SEED,
        tests=("egress/rates/test_rates.py::test_threads_never_overrun_a_window",),
    ),
    Threat(
        threat="tampering with stored components",
        source=SEED,
        tests=(
            "catalog/test_catalog_versions.py::test_changed_bytes_are_detected_by_every_read_and_by_verify",
            "sandbox/engine/test_cache.py::test_a_tampered_file_is_reported_once_and_never_loaded",
        ),
    ),
    Threat(
        threat="calling tools by their real names",
        source=SEED,
        tests=(
            "capabilities/test_capability_decisions.py::test_a_tool_is_only_called_by_its_alias_and_its_name_is_hidden",
        ),
        attacks=("invoke-without-grant",),
    ),
    Threat(
        threat="memory that the guest makes the host allocate: handles, random bytes, streams, lists",
        source=HOSTILE,
        tests=(
            _LIMITS + "test_a_million_host_calls_are_the_most_a_guest_makes",
            "sandbox/escape/test_attacks.py::test_attacks_leave_no_memory_threads_or_descriptors_behind",
            "sandbox/escape/test_soak.py::test_calls_mixed_with_attacks_leave_nothing_behind",
            "sandbox/escape/test_soak.py::test_kills_in_between_leave_no_process_descriptor_permit_or_temporary_file",
            "sandbox/wasi/test_streams.py::test_output_over_its_cap_is_dropped_and_counted_and_the_guest_goes_on",
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
        tests=("sandbox/escape/test_component_model.py::test_what_breaks_before_any_call_is_an_instantiation_error",),
        attacks=("loop-in-start", "loop-in-realloc", "loop-in-post-return", "realloc-points-outside"),
    ),
    Threat(
        threat="lifting, lowering and transcoding bugs at the border",
        source=HOSTILE,
        tests=(
            "sandbox/escape/test_component_model.py::test_what_the_specification_calls_a_trap_is_a_typed_error",
            "sandbox/escape/test_component_model.py::test_what_the_specification_calls_invalid_is_a_typed_error",
            "sandbox/escape/test_component_model.py::test_what_the_specification_calls_a_link_error_is_a_typed_error",
            "sandbox/escape/test_component_model.py::test_features_that_are_off_stay_off",
            "sandbox/escape/test_component_model.py::test_async_components_are_refused",
            "sandbox/escape/test_component_model.py::test_what_the_specification_calls_malformed_is_a_typed_error",
        ),
        attacks=("argument-outside-memory", "enum-out-of-range", "exit"),
    ),
    Threat(
        threat="handles that are forged, stale or of another kind",
        source=HOSTILE,
        tests=("sandbox/wasi/test_streams.py::test_the_handles_of_two_calls_are_strangers",),
        attacks=("dropped-twice", "forged-handle", "handle-of-another-kind"),
    ),
    Threat(
        threat="denial of service while compiling",
        source=HOSTILE,
        tests=(
            _LIMITS + "test_a_compile_of_a_hundred_thousand_functions_starves_no_call",
            "sandbox/component/test_counts.py::test_a_count_at_its_bound_passes_and_one_more_is_refused",
            "sandbox/component/test_counts.py::test_the_count_of_instances_is_what_expanding_them_gives",
            "sandbox/component/test_counts.py::test_a_product_of_two_counts_over_its_bound_is_refused",
            "runtime/call/test_prepare_beside_compiles.py::"
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
            "sandbox/engine/test_calls.py::test_whatever_a_host_function_raises_stays_in_its_own_call",
            "sandbox/engine/test_calls.py::test_failures_of_many_threads_never_mix",
        ),
    ),
    Threat(
        threat="header and response bombs",
        source=HOSTILE,
        tests=(
            "egress/gateway/test_hostile_servers.py::test_too_many_headers_are_refused",
            "sandbox/escape/test_attacks.py::test_a_server_whose_answer_gets_through_is_not_held",
            "sandbox/escape/test_attacks.py::test_an_echo_that_gets_through_whole_is_not_held",
        ),
        attacks=_names(*SERVERS),
    ),
    Threat(
        threat="answers that are too large, malformed or nearly what they should be",
        source=OURS,
        tests=(
            _LIMITS + "test_an_output_over_its_cap_is_refused_and_one_at_the_cap_is_not",
            "sandbox/escape/test_attacks.py::test_an_attack_ends_typed_and_in_time_and_the_next_call_works",
            "sandbox/escape/test_attacks.py::test_an_attack_ends_typed_in_process_too_and_the_next_call_works",
            "sandbox/escape/test_attacks.py::test_an_outcome_that_was_not_expected_does_not_count_as_held",
        ),
        attacks=_names(*(attack for attack in ANSWERS if "escapes" not in attack.name)),
    ),
    Threat(
        threat="values by the million, each of which becomes an object and text on the host's side",
        source=OURS,
        tests=("sandbox/border/test_prepare.py::test_a_call_passes_so_many_values_and_no_more",),
        attacks=_names(*VALUES),
    ),
    Threat(
        threat="a schema that is small and takes hours, or gigabytes, for one text",
        source=OURS,
        tests=(
            "sandbox/schema/test_validation_work.py::"
            "test_a_long_text_that_fails_ten_thousand_parts_is_answered_in_little_memory",
            "sandbox/schema/test_validation_work.py::test_characters_times_patterns_are_refused_before_the_work",
            "sandbox/schema/test_validation_work.py::test_what_passes_as_a_schema_takes_params_ever_after",
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
        threat="receipts that a guest makes grow",
        source=OURS,
        tests=(_REACH + "test_a_thousand_refused_lookups_leave_a_bounded_record",),
    ),
    Threat(
        threat="receipts that somebody changes, removes or cuts off afterwards",
        source=OURS,
        tests=(
            "runtime/audit/test_verify.py::test_no_byte_of_a_chain_can_be_changed_added_or_taken_away_unnoticed",
            "runtime/audit/test_verify.py::test_a_newest_line_that_is_missing_is_named",
            "runtime/audit/test_verify.py::test_a_missing_segment_is_named_wherever_it_was",
            "runtime/audit/test_verify.py::test_a_folder_that_was_put_back_to_an_older_state_is_found_by_a_head_that_was_noted",
            "runtime/audit/test_killed.py::test_processes_that_are_killed_lose_no_receipt_of_a_call_that_they_answered",
        ),
    ),
    Threat(
        threat="params that are guessed from a receipt's hash of them",
        source=OURS,
        tests=("runtime/audit/test_writer.py::test_the_hash_of_a_text_needs_the_key_of_the_installation",),
    ),
    Threat(
        threat="a recording or a replay that reaches what the call was not given",
        source=OURS,
        tests=(
            "runtime/audit/test_replay.py::test_twenty_recorded_calls_are_the_same_without_a_network",
            "runtime/audit/test_replay.py::test_a_recording_is_its_users_alone_and_holds_no_secret",
            "runtime/audit/test_replay.py::test_what_is_no_id_of_a_call_names_no_file",
        ),
    ),
    Threat(
        threat="errors that tell a guest or an agent about the host",
        source=OURS,
        tests=("sandbox/escape/test_attacks.py::test_an_attack_that_is_stopped_learns_nothing_of_the_host",),
    ),
    Threat(
        threat="an import that nobody decided about",
        source=OURS,
        tests=(
            "sandbox/test_imports.py::test_everything_a_guest_can_import_is_listed_with_what_bounds_it",
            "sandbox/test_imports.py::test_what_answers_has_a_type_that_is_checked",
        ),
    ),
    Threat(
        threat="an answer that hides an injected secret behind a bound of the scanner",
        source=OURS,
        tests=(
            "egress/gateway/test_not_scanned.py::test_what_is_behind_a_bound_of_the_scanner_is_withheld_or_found_whole_and_streamed",
            "egress/gateway/test_not_scanned.py::test_an_answer_that_cannot_be_opened_is_a_refusal_with_its_reason",
            "egress/leaks/test_more_encodings.py::test_a_secret_is_found_in_each_of_them",
            "egress/leaks/test_more_encodings.py::test_nor_does_a_stream_show_it",
        ),
    ),
    Threat(
        threat="a guest's words that pass for the host's, or carry a token past the scan",
        source=OURS,
        tests=(
            "sandbox/border/test_what_is_said.py::test_a_code_that_a_guest_chose_is_never_one_of_the_hosts_and_holds_no_token",
            "sandbox/border/test_what_is_said.py::test_an_error_is_cut_after_the_scan_and_a_token_at_the_cut_is_replaced_whole",
            "sandbox/border/test_what_is_said.py::test_a_traceback_holds_nothing_that_acts_on_a_terminal",
        ),
        attacks=("token-across-the-cut", "name-for-a-terminal"),
    ),
    Threat(
        threat="waits of the host's own that nobody cuts: a token endpoint, a name server, Redis",
        source=OURS,
        tests=(
            "egress/oauth/test_renewal.py::test_a_silent_endpoint_holds_no_call_beyond_its_deadline_and_is_asked_once",
            "egress/gateway/test_shares.py::test_names_that_nobody_answers_for_hold_up_no_other_user",
            "egress/rates/test_rates.py::test_a_silent_redis_is_waited_for_once_and_then_left_alone",
            "sandbox/isolation/test_waits.py::test_a_call_waits_for_no_process_beyond_its_deadline",
            "sandbox/isolation/test_hostile_frames.py::test_a_worker_that_sends_a_frame_byte_by_byte_is_ended_at_the_deadline",
        ),
    ),
    Threat(
        threat="a bug of the engine, and machine code of a stranger's in the guest's process",
        source=OURS,
        tests=(
            "sandbox/isolation/test_escape.py::test_native_code_finds_nothing_in_its_memory_that_is_not_its_own",
            "sandbox/isolation/test_escape.py::test_native_code_that_does_anything_else_is_ended_by_the_kernel",
            "sandbox/isolation/test_what_a_worker_holds.py::test_an_injected_secret_is_in_no_process_but_the_host",
            "sandbox/isolation/test_hostile_frames.py::test_no_frames_in_any_order_harm_the_host",
        ),
    ),
    Threat(
        threat="a worker that dies in the middle of a call",
        source=OURS,
        tests=(
            "sandbox/isolation/test_kills.py::test_a_worker_that_is_killed_at_any_word_of_a_call_ends_it_typed_and_once",
        ),
    ),
    Threat(
        threat="the build script of a stranger's project",
        source=OURS,
        tests=(
            "authoring/test_confined_build.py::test_a_build_script_reaches_the_project_and_nothing_else",
            "authoring/test_confined_build.py::test_a_hostile_build_script_of_rust_is_refused",
        ),
    ),
    Threat(
        threat="a call that nobody approved: by an answer for another, an old, a cancelled or a forged one",
        source=OURS,
        tests=(
            "agent/approvals/test_approvals.py::test_what_was_approved_for_one_is_asked_again_for",
            "agent/approvals/test_approvals.py::test_a_function_that_fails_or_answers_with_anything_else_denies",
            "agent/approvals/test_approvals.py::test_cancelling_withdraws_and_an_answer_afterwards_changes_nothing",
            "agent/approvals/test_patterns.py::test_a_parameter_that_was_not_widened_never_matches_another_value",
            "agent/approvals/test_patterns.py::test_a_path_that_matches_stays_below_its_folder",
            "agent/approvals/test_store.py::test_the_second_answer_changes_nothing",
            "agent/approvals/test_store.py::test_an_answer_by_another_user_changes_nothing",
            "agent/approvals/test_store.py::test_an_answer_for_a_tool_that_was_updated_changes_nothing",
            "agent/approvals/test_store.py::test_the_file_is_private_and_one_that_is_not_is_refused",
        ),
    ),
    Threat(
        threat="an approval or a token that is used twice",
        source=OURS,
        tests=(
            "agent/approvals/test_kills.py::test_killed_callers_and_killed_answerers_apply_nothing_twice_and_lose_nothing",
            "agent/approvals/test_tokens.py::test_of_two_processes_at_once_one_uses_the_token",
            "agent/approvals/test_tokens.py::test_a_token_whose_user_was_killed_is_not_used_again",
        ),
    ),
    Threat(
        threat="a confirmation token for something else, changed, or revived by a clock that was set back",
        source=OURS,
        tests=(
            "agent/approvals/test_tokens.py::test_a_token_for_something_else_is_refused_and_stays_unused",
            "agent/approvals/test_tokens.py::test_a_token_that_was_changed_or_made_elsewhere_is_refused",
            "agent/approvals/test_tokens.py::test_a_clock_that_is_set_back_gives_no_time_back",
            "agent/approvals/test_tokens.py::test_a_store_that_was_lost_takes_its_tokens_with_it",
        ),
    ),
    Threat(
        threat="a request whose words answer for the person, or show another call than is made",
        source=OURS,
        tests=(
            "agent/approvals/test_terminal.py::test_nothing_that_others_chose_drives_the_terminal_or_looks_like_ours",
            "agent/approvals/test_terminal.py::test_one_is_asked_at_a_time_and_keys_pressed_before_answer_nothing",
            "agent/approvals/test_approvals.py::test_what_is_changed_after_the_request_was_made_changes_nothing",
        ),
    ),
    Threat(
        threat="a page, a link or a program on the machine that answers for a person at the approvals page",
        source=OURS,
        tests=(
            *(
                f"interop/pages/test_protection.py::test_{name}"
                for name in (
                    "without_a_session_nothing_is_shown_and_nothing_acted_on",
                    "a_bearer_token_is_no_session",
                    "a_link_works_once_and_looking_ahead_does_not_use_it_up",
                    "a_form_without_this_sessions_token_is_not_acted_on",
                    "a_form_of_another_origin_or_of_none_is_not_acted_on",
                    "a_name_that_was_rebound_sees_nothing",
                    "paths_are_compared_and_never_resolved",
                )
            ),
            "interop/pages/test_browser.py::test_a_page_of_another_origin_reads_nothing_and_answers_nothing",
            "interop/pages/test_answers.py::test_of_two_people_who_answer_at_once_one_is_heard_and_the_others_are_told",
            "interop/pages/test_answers.py::test_what_is_not_all_shown_cannot_be_allowed_before_it_is",
            "cli/test_cli_approvals_web.py::test_a_browser_is_opened_without_the_link_in_anybodys_sight",
        ),
    ),
    Threat(
        threat="text of a tool or a model that becomes markup, or hides, on the approvals page",
        source=OURS,
        tests=(
            "interop/pages/test_protection.py::test_no_text_becomes_markup_or_hides_what_stands_beside_it",
            "interop/pages/test_protection.py::test_every_page_says_what_it_may_load_and_is_framed_by_nobody",
            "interop/pages/test_browser.py::test_hostile_texts_do_nothing_in_a_browser",
            "interop/pages/test_browser.py::test_the_policy_runs_no_script_and_no_style_of_a_page",
        ),
    ),
    Threat(
        threat="requests to the web server that smuggle, flood, stall, or come from another origin",
        source=OURS,
        tests=(
            *(
                f"interop/web/test_hostile_requests.py::test_{name}"
                for name in (
                    "a_request_that_two_servers_could_read_differently_is_refused",
                    "chunks_that_are_wrong_and_trailers_are_refused",
                    "a_name_that_was_rebound_to_this_address_is_refused",
                    "a_page_of_another_origin_is_refused_whatever_it_asks",
                    "heads_and_bodies_beyond_their_bounds_are_refused_while_they_come",
                    "a_client_that_sends_without_end_while_it_is_answered_is_dropped",
                )
            ),
            "interop/web/test_server.py::test_a_client_that_is_slow_with_its_head_or_body_or_silent_is_dropped",
            "interop/web/test_server.py::test_a_client_that_does_not_read_is_cut_off",
            "interop/web/test_server.py::test_one_client_does_not_take_all_the_connections",
        ),
    ),
    Threat(
        threat="a tool that changes what an agent is, or what decides about tools",
        source=OURS,
        tests=(
            "capabilities/test_workspace_write.py::test_an_identity_file_is_protected_in_every_spelling",
            "capabilities/test_workspace_write.py::test_no_indirect_path_reaches_an_identity_file",
            "runtime/workspace/test_workspace_writer.py::test_what_wasmrt_decides_by_is_never_written_wherever_it_is",
            "runtime/workspace/test_workspace_writer.py::test_only_a_folder_of_the_call_itself_is_moved",
        ),
    ),
    Threat(
        threat="a tool that fills the disk, or leaves half a file",
        source=OURS,
        tests=(
            "runtime/workspace/test_workspace_writer.py::test_bounds_are_held_before_a_byte_is_written",
            "runtime/workspace/test_workspace_writer.py::test_a_full_disk_leaves_the_old_file_and_no_other",
            "runtime/workspace/test_workspace_writer.py::test_a_process_that_is_killed_while_it_writes_leaves_a_whole_file",
            "sandbox/programs/test_program_writes.py::test_a_program_that_breaks_leaves_the_old_content",
        ),
    ),
    Threat(
        threat="a tool that overwrites or removes what nobody has a copy of",
        source=OURS,
        tests=(
            "runtime/workspace/test_undo.py::test_whatever_a_call_does_undo_is_its_inverse",
            "runtime/workspace/test_undo.py::test_undo_is_the_inverse_also_of_a_call_whose_changes_fail",
            "runtime/workspace/test_undo.py::test_nobody_pushes_out_the_calls_of_who_has_less",
            "runtime/workspace/test_undo.py::test_an_undo_that_is_stopped_anywhere_goes_on",
            "runtime/workspace/test_undo.py::test_what_could_not_be_kept_is_not_changed",
            "runtime/workspace/test_undo.py::test_what_was_changed_since_stops_all_of_it_unless_somebody_insists",
            "runtime/workspace/test_undo.py::test_after_a_kill_every_file_is_whole_and_the_call_can_be_taken_back",
        ),
    ),
    Threat(
        threat="a journal of changes, or a link put in the way, that has an undo write elsewhere",
        source=OURS,
        tests=(
            "runtime/workspace/test_undo.py::test_a_damaged_journal_says_so_and_leads_nowhere",
            "runtime/workspace/test_undo.py::test_no_link_leads_an_undo_out_of_the_workspace",
            "runtime/workspace/test_undo.py::test_content_that_was_damaged_in_the_journal_is_not_put_back",
        ),
    ),
    Threat(
        threat="a first-party tool that does more than its part of the capability file",
        source=OURS,
        tests=(
            "agent/first_party/test_files.py::test_no_tool_can_do_more_than_its_own_grant",
            "agent/first_party/test_files.py::test_no_path_leads_a_reader_elsewhere",
            "agent/first_party/test_files.py::test_a_folder_that_keeps_changing_lets_no_tool_out",
            "agent/first_party/test_files.py::test_the_vault_is_copied_from_and_neither_read_nor_written",
            "agent/first_party/test_files.py::test_a_narrower_grant_is_what_holds_and_its_denial_names_the_line",
            "agent/first_party/test_html_to_markdown.py::test_hostile_pages_end_as_an_answer_or_an_error_that_says_so",
        ),
    ),
    Threat(
        threat="a page or a model that has a tool of the web reach inside, carry a secret out, or get at a key",
        source=OURS,
        tests=(
            "agent/first_party/test_web_attacks.py::test_nothing_inside_is_asked_by_its_address_or_its_name",
            "agent/first_party/test_web_attacks.py::test_a_redirect_leads_nowhere_inside",
            "agent/first_party/test_web_attacks.py::test_a_name_that_is_inside_at_the_second_look_is_refused_there",
            "agent/first_party/test_web_attacks.py::test_a_secret_is_refused_wherever_it_stands",
            "agent/first_party/test_web_attacks.py::test_headers_cannot_smuggle_or_speak_for_the_host",
            "agent/first_party/test_web_attacks.py::test_an_answer_over_its_bound_ends_as_an_error_that_says_so",
            "agent/first_party/test_web_attacks.py::test_instructions_in_a_page_stay_inside_of_its_wrapper_and_mark_the_trace",
            "agent/first_party/test_web_search.py::test_no_other_tool_and_no_query_gets_the_key",
            "agent/first_party/test_web_search.py::test_a_provider_that_echoes_the_key_does_not_get_it_into_an_answer",
        ),
    ),
    Threat(
        threat="a model that has a tool installed, granted or offered without a person's look at it",
        source=OURS,
        tests=(
            "agent/extensions/test_extension_tools.py::test_without_a_person_nothing_is_installed_and_the_command_is_named",
            "agent/extensions/test_extension_tools.py::test_a_call_that_brings_its_own_grant_or_its_own_approval_is_refused",
            "agent/extensions/test_extension_tools.py::test_no_rule_answers_for_a_person",
            "agent/extensions/test_extension_tools.py::test_a_confirmation_token_is_no_look_at_what_is_granted",
            "agent/extensions/test_extension_tools.py::test_a_package_that_changes_while_the_person_reads_is_not_installed",
            "agent/extensions/test_extension_tools.py::test_a_package_from_an_allowed_host_holds_nothing_until_a_person_grants_it",
            "agent/extensions/test_extension_tools.py::test_installing_and_activating_lets_no_tool_past_the_policy",
            "agent/extensions/test_servers.py::test_a_server_that_nobody_approved_is_neither_started_nor_kept",
        ),
    ),
    Threat(
        threat="a model that names a path, a host or a name that is not for it",
        source=OURS,
        tests=(
            "agent/extensions/test_extension_tools.py::test_a_name_is_never_a_path",
            "agent/extensions/test_extension_tools.py::test_a_link_in_the_operators_folder_lends_its_name_to_nothing_elsewhere",
            "agent/extensions/test_extension_tools.py::test_a_package_takes_no_name_that_a_model_could_take_for_another_tool",
            "agent/extensions/test_extension_tools.py::test_a_host_that_nobody_allowed_is_refused_before_anybody_is_asked",
            "agent/skills/test_skill_tools.py::test_a_redirect_to_another_host_or_a_private_address_is_not_followed",
            "agent/skills/test_skill_tools.py::test_an_allowed_host_that_leads_to_a_private_address_is_not_asked",
            "agent/extensions/test_extension_tools.py::test_auth_is_about_the_calling_user_alone",
        ),
    ),
    Threat(
        threat="a skill that hides something, leads to other files, or changes after a person agreed to it",
        source=OURS,
        tests=(
            "agent/skills/test_skill_tools.py::test_what_nobody_can_see_refuses_a_skill_in_every_file",
            "agent/skills/test_skill_tools.py::test_an_installed_skill_is_a_strangers_text_until_a_person_trusts_it",
            "agent/skills/test_skill_tools.py::test_a_skill_names_no_file_of_another",
            "agent/skills/test_skill_tools.py::test_a_folder_with_what_is_no_plain_file_is_refused",
            "agent/skills/test_skill_tools.py::test_a_folder_that_is_exchanged_while_it_is_read_gives_no_other_file",
            "agent/skills/test_skill_tools.py::test_a_changed_skill_waits_for_a_person",
            "agent/skills/test_skill_tools.py::test_a_folder_that_others_or_tools_can_write_has_no_skills_of_a_persons_own",
            "agent/skills/test_front_matter.py::test_what_makes_yaml_dangerous_is_refused_by_name",
            "agent/skills/test_front_matter.py::test_an_alias_bomb_is_refused_without_expansion",
        ),
    ),
    Threat(
        threat="a native plugin that reads, writes, connects or lives beyond what it was given",
        source=OURS,
        tests=tuple(
            f"agent/plugins/test_hostile_plugins.py::test_{name}"
            for name in (
                "what_it_was_not_given_is_refused_by_the_kernel",
                "the_workspace_is_read_only",
                "a_granted_path_is_written_and_no_other",
                "there_is_no_network_unless_it_is_required_and_allowed",
                "children_that_outlive_a_plugin_end_with_it_and_hold_nothing_up",
                "a_plugin_that_ignores_signals_is_killed_with_all_that_it_started",
                "a_program_that_was_changed_since_it_was_loaded_does_not_run",
                "the_environment_holds_nothing_of_ours",
            )
        ),
    ),
    Threat(
        threat="a command line of a model's that destroys, becomes another user, or hides what it runs",
        source="seed 001, section 4.6",
        tests=tuple(
            f"agent/shell/{name}"
            for name in (
                "test_lists.py::test_each_rule_decides_its_examples_and_is_named",
                "test_lines.py::test_harmful_lines_are_refused_or_ask",
                "test_lines.py::test_a_harmful_command_is_found_wherever_it_stands",
                "test_lines.py::test_words_are_expanded_as_bash_expands_them",
                "test_lines.py::test_what_cannot_be_read_is_refused",
                "test_shell_tool.py::test_a_rule_approves_plain_commands_and_never_what_cannot_be_taken_back",
                "test_shell_tool.py::test_without_a_safe_place_nothing_runs_and_never_on_the_host",
            )
        ),
    ),
    Threat(
        threat="a command that reads, writes, connects, prints or lives beyond what the shell was given",
        source=OURS,
        tests=tuple(
            f"agent/shell/{name}"
            for name in (
                "test_escapes.py::test_no_attempt_gets_out_and_more_than_forty_are_proven",
                "test_confined.py::test_of_the_environment_a_command_sees_the_allowlist",
                "test_confined.py::test_a_late_command_is_ended_with_everything_that_it_started",
                "test_confined.py::test_a_workspace_that_holds_what_is_wasmrts_own_runs_nothing",
                "test_confined.py::test_output_is_kept_at_its_beginning_and_its_end",
                "test_confined.py::test_memory_is_bounded",
                "test_confined.py::test_a_secret_in_the_output_is_withheld",
            )
        ),
    ),
    Threat(
        threat="a program that was given one host reaches another, or whatever stands at that host's addresses",
        source=OURS,
        tests=(
            *(
                f"sandbox/isolation/test_outlet.py::test_{name}"
                for name in (
                    "no_way_leads_past_the_outlet_and_more_than_sixty_are_proven",
                    "after_the_run_nobody_uses_its_outlet",
                    "nobody_outside_reaches_the_port_of_an_outlet",
                    "what_a_run_leaves_open_ends_with_its_outlet",
                    "a_tunnel_has_an_end",
                    "a_body_of_plain_http_has_an_end",
                    "tunnels_are_counted_for_each_user",
                    "a_machine_without_networks_of_their_own_starts_nothing",
                    "a_grant_that_cannot_be_held_is_refused",
                )
            ),
            "agent/shell/test_shell_network.py::test_a_machine_that_cannot_guard_an_outlet_runs_no_command",
            "interop/mcp_client/test_program_network.py::test_a_server_reaches_what_it_was_given_and_its_receipt_tells",
        ),
    ),
    Threat(
        threat="a command prepares the shell for a later one, which then gets past the lists or an approval",
        source=OURS,
        tests=tuple(
            f"agent/shell/test_sessions.py::test_{name}"
            for name in (
                "what_a_command_left_is_known_to_the_lists",
                "nothing_else_of_a_command_reaches_the_next",
                "a_command_cannot_tell_more_than_data",
                "reports_that_are_no_reports_change_nothing",
                "users_and_conversations_are_apart_and_a_call_outside_of_any_keeps_nothing",
                "an_approval_is_for_the_state_that_was_seen",
                "a_command_that_nobody_approved_is_decided_again_where_the_session_changed",
                "a_session_keeps_a_bounded_number_of_bytes",
                "what_needs_confinement_is_never_had_on_the_host",
            )
        ),
    ),
    Threat(
        threat="a page in a browser that reaches inside, sends something, or lives beyond its call",
        source=OURS,
        tests=tuple(
            f"agent/desktop/test_pages.py::{name}"
            for name in (
                "test_a_page_runs_its_scripts_and_reaches_nothing_but_public_hosts",
                "test_a_page_that_moves_to_another_site_is_told_and_not_followed",
                "test_a_page_that_never_ends_is_ended_with_its_browser",
                "test_requests_and_bytes_of_a_page_are_bounded",
                "test_a_secret_in_an_address_of_the_page_is_not_sent",
            )
        ),
    ),
    Threat(
        threat="a model that uses a person's desktop against them: pasted commands, markup, applications, passwords",
        source=OURS,
        tests=tuple(
            f"agent/desktop/test_desktop.py::{name}"
            for name in (
                "test_what_would_type_into_a_terminal_is_not_put_into_the_clipboard",
                "test_a_notification_is_shown_as_the_agents_without_markup",
                "test_what_the_operator_did_not_allow_is_refused_with_the_line_that_would_allow_it",
                "test_a_program_has_nothing_of_this_processs_environment_but_the_session",
                "test_a_registry_asks_a_person_before_the_clipboard_is_read_or_written",
                "test_each_is_off_until_the_operator_turns_it_on_and_shown_as_such",
            )
        ),
    ),
    Threat(
        threat="a plugin or program whose answer floods, lies about its request, or is another's",
        source=OURS,
        tests=(
            "agent/plugins/test_hostile_plugins.py::test_output_without_end_is_ended_at_its_cap",
            "agent/plugins/test_hostile_plugins.py::test_an_answer_to_another_request_is_refused",
            "agent/plugins/test_hostile_plugins.py::test_two_answers_are_none",
            "agent/plugins/test_hostile_plugins.py::test_secrets_in_what_it_reads_do_not_leave",
            "sandbox/programs/test_programs.py::test_output_without_end_is_ended_by_the_cap_of_an_answer",
            "sandbox/programs/test_programs.py::test_a_secret_that_a_program_prints_is_cut_out_of_result_and_failure",
        ),
    ),
    Threat(
        threat="an MCP client whose messages are broken, endless, or never read",
        source=OURS,
        tests=tuple(
            f"interop/mcp_server/test_hostile_clients.py::test_{name}"
            for name in (
                "what_cannot_be_read_is_answered_and_changes_nothing",
                "what_is_no_request_of_the_protocol_is_refused",
                "a_line_of_64_mib_is_refused_once_and_not_kept",
                "an_id_that_is_not_answered_yet_cannot_be_used_again",
                "no_more_requests_wait_than_the_bound",
                "a_client_that_does_not_read_is_not_read_from_for_ever",
                "a_client_that_goes_in_the_middle_of_an_answer_ends_its_server",
            )
        ),
    ),
    Threat(
        threat="a client that opens the approval page itself, or says that its user answered there",
        source=OURS,
        tests=(
            "interop/mcp_server/test_url_elicitation.py::test_a_client_that_says_accepted_approves_nothing_by_that",
            "interop/mcp_server/test_url_elicitation.py::test_an_answer_to_a_form_is_none_where_a_page_was_to_be_opened",
            "interop/mcp_server/test_url_elicitation.py::test_the_page_of_one_user_is_not_shown_to_another",
            "interop/pages/test_ask.py::test_the_page_behind_it_tells_nothing_of_the_request",
            "interop/pages/test_ask.py::test_nothing_is_answered_at_it",
            "interop/pages/test_ask.py::test_the_address_of_a_process_that_was_killed_is_not_believed",
            "interop/pages/test_browser.py::test_the_address_of_a_request_leads_nowhere_else",
        ),
    ),
    Threat(
        threat="an access token that is forged, stolen from another server, or made by a key that it brings itself",
        source=OURS,
        tests=tuple(
            f"interop/mcp_server/test_access_tokens.py::test_{name}"
            for name in (
                "no_forged_token_lets_anybody_in",
                "a_token_that_stands_for_nobody_here_is_forbidden",
                "a_token_in_the_address_is_refused_though_a_sound_one_is_in_the_header",
                "several_headers_with_tokens_are_refused",
                "a_key_that_is_not_for_this_verifies_nothing",
                "the_keys_of_a_server_without_a_known_certificate_are_not_taken",
                "an_answer_that_is_no_set_of_keys_is_none",
                "users_of_tokens_are_kept_apart",
                "no_part_of_a_token_comes_back",
            )
        ),
    ),
    Threat(
        threat="tokens that have an authorization server asked without end, or hold when it cannot be asked",
        source=OURS,
        tests=(
            "interop/mcp_server/test_access_tokens.py::test_ids_that_nobody_knows_have_the_keys_fetched_once_in_a_while",
            "interop/mcp_server/test_access_tokens.py::test_keys_that_cannot_be_fetched_again_hold_for_a_day",
            "interop/mcp_server/test_access_tokens.py::test_many_tokens_at_once_have_the_keys_fetched_once",
        ),
    ),
    Threat(
        threat="the pages of the person at this machine, reached by the name that all clients know",
        source=OURS,
        tests=(
            "interop/mcp_server/test_access_tokens.py::test_what_is_for_the_person_at_this_machine_is_not_under_the_public_name",
        ),
    ),
    Threat(
        threat="an MCP client whose refused messages nobody hears of, or fill the disk with receipts",
        source=OURS,
        tests=tuple(
            f"interop/mcp_server/test_refusals.py::test_{name}"
            for name in (
                "a_flood_of_refused_messages_is_two_receipts_with_their_number",
                "nothing_that_a_client_sent_is_in_the_receipt",
                "kinds_and_users_are_counted_apart",
                "no_more_users_are_counted_apart_than_the_bound",
                "what_cannot_be_written_is_kept_and_written_later",
            )
        ),
    ),
    Threat(
        threat="an MCP client that answers in place of the person, or answers another call",
        source=OURS,
        tests=(
            "interop/mcp_server/test_approvals.py::test_where_the_operator_wants_the_queue_a_clients_word_is_not_taken",
            "interop/mcp_server/test_approvals.py::test_a_state_is_used_once",
            "interop/mcp_server/test_approvals.py::test_a_state_is_for_its_tool_and_arguments",
            "interop/mcp_server/test_approvals.py::test_a_state_that_was_changed_or_made_up_is_refused",
            "interop/mcp_server/test_approvals.py::test_a_response_that_was_not_asked_for_changes_nothing",
            "interop/mcp_server/test_hostile_clients.py::test_texts_in_a_call_cannot_speak_for_wasmrt_in_a_form",
        ),
    ),
    Threat(
        threat="a tool or a model that gets more of a grant than a person said yes to, or wears the person out",
        source=OURS,
        tests=(
            "agent/access/test_growth.py::test_a_grant_grows_by_the_entry_and_nothing_else",
            "agent/access/test_growth.py::test_of_several_tools_the_one_that_asked_gets_it_and_no_other",
            "agent/access/test_attacks.py::test_a_narrower_entry_that_is_wider_is_refused",
            "agent/access/test_attacks.py::test_an_answer_after_an_update_of_the_tool_grants_nothing",
            "agent/access/test_attacks.py::test_an_answer_after_a_change_of_the_grant_grants_nothing",
            "agent/access/test_attacks.py::test_another_users_answer_changes_nothing_and_tells_nothing",
            "agent/access/test_attacks.py::test_a_request_is_answered_once",
            "agent/access/test_attacks.py::test_an_answer_that_holds_once_is_used_once_by_calls_at_the_same_moment",
            "agent/access/test_attacks.py::test_what_was_kept_and_revoked_does_not_come_back_in_the_session_that_asked",
            "agent/access/test_attacks.py::test_a_path_that_words_its_own_approval_is_shown_as_data",
            "agent/access/test_attacks.py::test_a_tool_that_is_told_no_again_and_again_asks_no_more",
        ),
    ),
    Threat(
        threat="a page has an agent remember something that another conversation takes for its own",
        source=OURS,
        tests=(
            "agent/memory/test_tools.py::test_a_strangers_text_stays_a_strangers_in_a_new_process",
            "agent/memory/test_tools.py::test_an_operators_word_on_results_does_not_launder_what_is_marked",
            "agent/memory/test_tools.py::test_a_path_that_a_stranger_brought_stays_a_strangers_until_a_person_writes_there",
            "agent/memory/test_tools.py::test_the_labels_of_a_strangers_tool_are_not_believed",
            "agent/memory/test_attacks.py::test_what_a_stranger_had_written_down_is_marked_and_cannot_pose_as_ours",
            "agent/memory/test_documents.py::test_an_older_version_is_restored_as_a_new_one_with_the_trust_that_it_had",
        ),
    ),
    Threat(
        threat="a model that writes who the agent is, reads another user's memory, or fills it",
        source=OURS,
        tests=(
            "agent/memory/test_attacks.py::test_no_spelling_of_an_identity_file_is_written_by_a_tool",
            "agent/memory/test_attacks.py::test_no_path_leads_anywhere_but_to_a_document",
            "agent/memory/test_attacks.py::test_users_never_see_each_others_memory",
            "agent/memory/test_attacks.py::test_nothing_of_the_index_syntax_comes_through",
            "agent/memory/test_attacks.py::test_a_hundred_thousand_pieces_are_searched_and_one_more_is_refused",
            "agent/memory/test_attacks.py::test_a_query_ends_at_the_deadline_of_its_call",
            "agent/memory/test_documents.py::test_old_versions_go_first_and_what_is_there_now_never_does",
        ),
    ),
    Threat(
        threat="a secret in an agent's memory, or a memory that a crash or a bad disk loses",
        source=OURS,
        tests=(
            "agent/memory/test_attacks.py::test_a_secret_is_neither_remembered_nor_told",
            "agent/memory/test_attacks.py::test_a_database_that_cannot_be_used_is_a_typed_error_and_stays_as_it_is",
            "agent/memory/test_kills.py::test_a_writer_that_is_killed_leaves_the_old_document_or_the_new_one",
            "agent/memory/test_kills.py::test_writers_in_several_processes_lose_nothing_of_each_other",
        ),
    ),
    Threat(
        threat="a page in a browser, or a program without a token, that calls tools over HTTP",
        source=OURS,
        tests=(
            "interop/mcp_server/test_http.py::test_requests_of_pages_and_rebound_names_are_refused",
            "interop/mcp_server/test_http.py::test_without_its_token_nothing_is_answered",
            "interop/mcp_server/test_http.py::test_a_token_in_the_address_counts_for_nothing",
            "interop/mcp_server/test_http.py::test_users_are_kept_apart",
            "interop/mcp_server/test_http.py::test_headers_that_do_not_mirror_the_body_are_refused",
        ),
    ),
)

COVERED_ATTACKS = frozenset(name for threat in THREATS for name in threat.attacks)
KNOWN_ATTACKS = frozenset(_names(*CPU, *MEMORY, *HOST, *REACH, *ANSWERS, *VALUES, *SERVERS, *COMPONENTS))
