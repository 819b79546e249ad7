"""Known threats, each with its source and with the tests and attacks that cover it.

A test is `file::function` below tests/; an attack is an entry of wasmrt.testing.attacks, run by escape/test_attacks.py.
test_threats.py fails if a threat has neither, if one of them does not exist, or if a hostile test has no threat.
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
_JOBS = "agent/jobs/test_runs.py::"
_REGISTRIES = "cli/test_cli_lying_registries.py::"
_ROUTINES = "agent/routines/test_engine.py::"
_SIGNED = "catalog/installer/test_signatures.py::"

THREATS = (
    Threat(
        threat="a model that writes software reaches files, hosts or tools, or installs what it wrote",
        source=OURS,
        tests=(
            "interop/builder/test_loop.py::test_commands_and_files_are_confined_to_the_project",
            "interop/builder/test_loop.py::test_a_link_out_of_the_project_is_refused_before_its_files_are_read",
            "interop/builder/test_loop.py::test_a_request_to_a_host_asks_the_user",
            "interop/builder/test_loop.py::test_a_rule_of_the_operator_applies_in_a_build",
            "interop/builder/test_components.py::test_a_build_cannot_read_outside_of_its_project",
            "interop/builder/test_components.py::test_a_component_that_requests_more_than_the_description_is_refused",
            "interop/builder/test_components.py::test_a_tool_is_not_installed_if_the_user_refuses",
        ),
    ),
    Threat(
        threat="a tool is replaced: its signature is moved, removed or by another signer, or its version is lower",
        source=OURS,
        tests=(
            _SIGNED + "test_a_tool_that_the_given_key_did_not_sign_is_refused",
            _SIGNED + "test_another_signer_none_and_a_lower_version_wait_for_a_decision",
            _SIGNED + "test_a_moved_bundle_is_refused_without_a_key_as_well",
            _SIGNED + "test_a_capability_file_that_the_signature_does_not_cover_counts_as_unsigned",
            "catalog/installer/test_install_policy.py::test_only_tools_with_a_required_signer_are_planned",
            "agent/extensions/test_extension_tools.py::test_the_operators_policy_for_installations_applies_to_agents",
            "cli/test_cli_lock.py::test_locked_installs_exactly_the_locked_content",
            "cli/test_cli_export.py::test_an_unverified_signer_satisfies_neither_a_pin_nor_the_operators_policy",
            "cli/test_cli_install_urls.py::test_hosts_that_the_operator_did_not_list_are_never_contacted",
            "cli/test_cli_install_urls.py::test_redirects_lead_only_to_hosts_that_the_operator_listed",
            "cli/test_cli_registries.py::test_redirects_of_a_registry_lead_only_to_hosts_that_the_operator_listed",
            "cli/test_cli_lock.py::test_locked_resolves_no_tag_of_a_registry_and_only_update_notices_that_one_has_moved",
            "agent/extensions/test_extension_tools.py::"
            "test_a_tool_of_a_registry_is_installed_without_a_grant_and_only_from_allowed_hosts",
            "agent/extensions/test_listed_tools.py::"
            "test_a_listed_tool_on_a_host_that_is_not_allowed_is_shown_so_and_refused",
            "agent/extensions/test_listed_tools.py::test_the_query_and_logins_are_not_sent",
        ),
    ),
    Threat(
        threat="a guest reads a secret, or the settings of another tool, through wasi:config/store",
        source=OURS,
        tests=(
            "sandbox/border/test_config_store.py::test_a_secret_in_a_value_does_not_reach_the_guest",
            "sandbox/border/test_config_store.py::test_other_keys_have_no_value_and_are_recorded",
        ),
    ),
    Threat(
        threat="a server compresses a bomb with Brotli or zstd, or lies about its coding",
        source=OURS,
        tests=(
            "egress/gateway/test_codings.py::test_a_bomb_stops_at_the_limit",
            "egress/gateway/test_codings.py::test_a_zstd_window_over_8_mib_is_refused",
            "egress/gateway/test_codings.py::test_a_false_content_encoding_is_a_typed_error",
            "egress/gateway/test_codings.py::test_damaged_bodies_are_typed_errors",
        ),
    ),
    Threat(
        threat="a handler of HTTP requests floods its response, or forges a request",
        source=OURS,
        tests=(
            "sandbox/guests/test_http_handlers.py::test_a_response_over_the_output_limit_ends_the_call",
            "sandbox/guests/test_http_handlers.py::test_invalid_requests_are_refused",
            "sandbox/wasi/test_http.py::test_only_the_host_creates_incoming_requests",
        ),
    ),
    Threat(
        threat="CPU exhaustion",
        source=SEED,
        tests=(
            _LIMITS + "test_a_fuel_error_reports_limit_usage_and_setting",
            "sandbox/escape/test_in_process.py::test_a_guarantee_holds_in_process",
            "sandbox/escape/test_in_process.py::test_the_number_of_host_calls_is_limited_in_process",
            "sandbox/escape/test_in_process.py::test_a_guest_does_not_delay_the_calls_of_others",
        ),
        attacks=("loop-until-fuel", "recursion", "indirect-recursion"),
    ),
    Threat(
        threat="memory exhaustion",
        source=SEED,
        tests=(
            _LIMITS + "test_exceeding_the_memory_limit_reports_the_needed_memory",
            _LIMITS + "test_a_guest_that_is_refused_memory_and_aborts_gets_a_hint_with_the_limit",
            _LIMITS + "test_an_abort_after_a_report_of_a_failed_allocation_is_a_memory_error",
            _LIMITS + "test_an_abort_after_other_output_or_another_trap_is_not_a_memory_error",
            _LIMITS + "test_a_second_memory_of_a_module_counts_against_the_limit",
        ),
        attacks=_names(*MEMORY),
    ),
    Threat(
        threat="a job acts for another user, with more tools than its creator, or next to a second run of itself",
        source=OURS,
        tests=(
            _JOBS + "test_calls_of_a_job_are_calls_of_its_user_and_name_the_job_as_parent",
            _JOBS + "test_a_job_never_has_more_tools_than_its_creator",
            _JOBS + "test_a_paused_run_that_another_process_continues_can_do_nothing_more",
            _JOBS + "test_a_job_with_narrowed_tools_is_not_continued_with_more",
            "agent/jobs/test_kills.py::test_killed_processes_lose_no_job_and_run_none_twice",
        ),
    ),
    Threat(
        threat="a model reaches the jobs of another user, starts jobs in jobs, or leads a command out of its project",
        source=OURS,
        tests=(
            "agent/jobs/test_tools.py::test_a_job_of_another_user_is_not_found_by_any_tool",
            "agent/jobs/test_tools.py::test_a_job_cannot_create_jobs",
            "agent/jobs/test_command.py::test_a_link_out_of_the_projects_is_refused",
            "agent/jobs/test_command.py::test_the_command_reaches_only_its_project",
        ),
    ),
    Threat(
        threat="a routine trusts the text of an event, reaches another user, or runs a slot twice",
        source=OURS,
        tests=(
            _ROUTINES + "test_the_text_of_an_event_is_untrusted_in_the_trace_of_the_run",
            _ROUTINES + "test_a_system_event_starts_the_routines_whose_source_type_and_filters_match",
            _ROUTINES + "test_calls_of_a_run_belong_to_the_user_of_the_routine",
            _ROUTINES + "test_a_run_renews_its_lease_and_can_do_nothing_after_losing_it",
            "agent/routines/test_kills.py::test_a_killed_scheduler_starts_no_scheduled_time_twice",
        ),
    ),
    Threat(
        threat="a model gives a routine tools, another prompt or a recipient that its user did not approve",
        source=OURS,
        tests=(
            "agent/routines/test_tools.py::test_a_routine_that_may_use_tools_is_created_after_approval_only",
            "agent/routines/test_tools.py::test_a_change_of_an_approved_prompt_needs_approval_again",
            "agent/routines/test_tools.py::test_results_are_sent_to_a_recipient_that_the_user_approved",
        ),
    ),
    Threat(
        threat="a tool reaches agents although its user did not agree to that, or the operator denies it",
        source=OURS,
        tests=(
            "cli/test_cli_offer.py::test_a_tool_that_was_installed_without_consent_is_not_offered",
            "cli/test_cli_offer.py::test_the_operators_configuration_overrides_an_offer",
            "catalog/test_catalog_versions.py::test_a_rollback_offers_the_version_only_if_both_were_offered",
            "catalog/test_catalog_versions.py::test_an_offer_applies_to_the_version_and_grant_that_the_user_saw",
        ),
    ),
    Threat(
        threat="a tool imitates the name of a built-in tool with letters of another alphabet",
        source=OURS,
        tests=(
            "agent/test_registry.py::test_a_protected_name_is_rejected_in_every_spelling",
            "core/test_names.py::test_names_that_models_confuse_have_the_same_folded_name",
        ),
    ),
    Threat(
        threat="an error shows a model how to lift a denial, and the model asks a user to do so",
        source=OURS,
        tests=(
            "sandbox/border/test_call_services.py::test_a_guest_gets_the_recorded_reason_of_a_denial",
            "agent/first_party/test_denials.py::test_model_sees_the_rule_without_the_setting",
            "sandbox/border/test_call_services.py::test_a_guest_gets_only_recorded_hints",
            "runtime/denials/test_policy.py::test_the_line_named_by_a_policy_denial_allows_the_call",
        ),
    ),
    Threat(
        threat="a code-mode program calls a tool outside its caller's view, or reuses an approval",
        source=OURS,
        tests=(
            _CODE + "test_tools_outside_the_view_cannot_be_called_by_any_spelling",
            _CODE + "test_programs_cannot_run_programs_or_change_tools",
            _CODE + "test_wrapped_tool_is_still_excluded_from_programs",
            _CODE + "test_patched_globals_of_a_program_do_not_change_its_calls",
            _CODE + "test_denied_call_stays_denied_when_repeated",
            _CODE + "test_program_cannot_catch_a_pending_call",
            _CODE + "test_calls_after_the_end_of_a_program_are_not_made",
            _CODE + "test_answers_are_not_replayed_if_the_view_no_longer_has_the_tool",
            _CODE + "test_third_party_tools_cannot_get_the_tools_of_the_caller",
        ),
    ),
    Threat(
        threat="a suspended run is edited, resumed twice, or resumed by another user or with other calls",
        source=OURS,
        tests=(
            _CODE + "test_run_cannot_be_continued_by_a_different_user_or_conversation",
            _CODE + "test_stored_run_of_a_different_user_is_refused",
            _CODE + "test_stored_run_with_changed_calls_or_format_is_refused",
            _CODE + "test_stored_run_that_is_readable_by_others_or_a_link_is_refused",
            _CODE + "test_interrupted_call_is_not_repeated",
            _CODE + "test_run_cannot_be_continued_twice_at_the_same_time",
            _CODE + "test_number_of_suspended_programs_of_a_user_is_limited",
            _CODE + "test_run_survives_its_process_and_expires",
        ),
    ),
    Threat(
        threat="a code-mode program does not end, fills memory, or prints or calls endlessly",
        source=OURS,
        tests=(
            _CODE + "test_odd_exceptions_and_results_only_end_the_program",
            _CODE + "test_endless_programs_and_programs_that_use_all_memory_are_ended",
            _CODE + "test_endless_output_is_truncated",
            _CODE + "test_run_ends_at_the_maximum_number_of_calls",
            _CODE + "test_oversized_arguments_are_refused_before_the_tool_runs",
            _CODE + "test_program_beyond_the_size_limit_is_refused",
        ),
    ),
    Threat(
        threat="a tool with access to any public host reaches a network exempted for another tool",
        source=OURS,
        tests=(
            "capabilities/test_entries.py::test_any_public_host_does_not_open_a_network_exempted_for_another_tool",
            "egress/gateway/test_addresses.py::test_every_public_host_reaches_no_exempted_network",
        ),
    ),
    Threat(
        threat="an update changes the address of a login or of its token renewal",
        source=OURS,
        tests=(
            "cli/test_cli_grant.py::test_a_login_that_changes_asks_for_more_and_waits",
            "egress/oauth/test_renewal.py::test_a_refresh_token_is_only_sent_to_the_token_url_of_the_granted_login",
        ),
    ),
    Threat(
        threat="a change of a grant gives a tool more than it requests",
        source=OURS,
        tests=(
            "capabilities/test_amendments.py::test_an_added_entry_lies_within_the_request_and_removes_nothing",
            "capabilities/test_amendments.py::test_an_entry_that_the_tool_does_not_request_cannot_be_granted",
        ),
    ),
    Threat(
        threat="a crafted user name gives access to another user's files",
        source=OURS,
        tests=(
            "runtime/call/test_embedding.py::test_no_username_leads_out_of_the_root_or_to_another_user",
            "runtime/workspace/test_user_folders.py::test_no_two_users_share_a_folder",
        ),
    ),
    Threat(
        threat="infinite loops at each place that runs guest code",
        source=SEED,
        tests=(
            _LIMITS + "test_a_deadline_error_reports_limit_usage_and_setting",
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
            "sandbox/programs/test_program_writes.py::test_writes_outside_the_grant_are_refused_and_recorded",
        ),
        attacks=("open-files", "read-workspace-without-grant"),
    ),
    Threat(
        threat="network access",
        source=SEED,
        tests=(
            _REACH + "test_a_refused_socket_names_an_alternative",
            _REACH + "test_a_refused_lookup_names_the_host_without_a_dns_query",
            _REACH + "test_repeated_refusals_are_recorded_once",
            "egress/gateway/test_fetch.py::test_nothing_is_fetched_without_a_grant",
            "egress/gateway/test_addresses.py::test_every_row_of_the_ssrf_corpus_gets_the_expected_decision",
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
            _ANSWERS + "test_a_thousand_log_lines_are_kept_and_the_rest_counted",
            _ANSWERS + "test_a_long_log_line_is_truncated_between_characters",
        ),
        attacks=("log-flood", "log-of-fifty-megabytes"),
    ),
    Threat(
        threat="path traversal",
        source=SEED,
        tests=(
            "runtime/workspace/test_workspace_reader.py::test_no_path_reads_outside_its_grant",
            "runtime/workspace/test_workspace_reader.py::test_a_part_of_a_file_of_any_size_is_read_under_the_same_rules",
            "runtime/workspace/test_workspace_writer.py::test_a_path_without_write_permission_is_refused_with_the_reason",
            "runtime/workspace/test_workspace_writer.py::test_links_are_not_followed_even_inside_the_workspace",
            "runtime/workspace/test_workspace_writer.py::test_a_concurrently_changed_folder_cannot_redirect_a_write",
        ),
    ),
    Threat(
        threat="a URL whose path a server divides differently than the entry that allows it",
        source=OURS,
        tests=(
            "capabilities/test_path_patterns.py::test_a_star_matches_one_plain_segment",
            "capabilities/test_path_patterns.py::test_a_credential_is_sent_only_to_paths_that_match_its_pattern",
            "capabilities/test_capability_paths.py::test_an_allowed_path_stays_under_its_prefix_for_every_parser",
        ),
    ),
    Threat(
        threat="a revoked use that another entry of the grant still allows",
        source=OURS,
        tests=(
            "capabilities/test_amendments.py::test_a_revoked_request_is_never_allowed_and_every_other_one_stays",
            "capabilities/test_amendments.py::test_revoking_what_a_wider_entry_still_allows_fails",
        ),
    ),
    Threat(
        threat="a tool that is called by a name for which the operator wrote no rule",
        source=OURS,
        tests=(
            "agent/registry/test_attacks.py::test_a_rule_under_an_alias_applies_to_the_tool",
            "agent/registry/test_attacks.py::test_a_preset_and_a_guard_accept_an_alias",
            "agent/registry/test_attacks.py::test_a_rule_for_a_tool_of_wasmrt_that_does_not_exist_is_an_error",
        ),
    ),
    Threat(
        threat="reuse of an instance after a trap",
        source=SEED,
        tests=(
            "sandbox/escape/test_component_model.py::test_a_trap_affects_only_its_own_call",
            "sandbox/escape/test_in_process.py::test_calls_of_different_users_share_no_state",
        ),
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
            "runtime/call/test_cached_code.py::test_poisoned_code_is_compiled_again",
        ),
    ),
    Threat(
        threat="invoking a tool by its real name instead of a granted alias",
        source=SEED,
        tests=(
            "capabilities/test_capability_decisions.py::test_a_tool_is_only_called_by_its_alias_and_its_name_is_hidden",
        ),
        attacks=("invoke-without-grant",),
    ),
    Threat(
        threat="host memory allocated by a guest: handles, random bytes, streams, lists",
        source=HOSTILE,
        tests=(
            _LIMITS + "test_a_guest_is_limited_to_a_million_host_calls",
            "sandbox/escape/test_attacks.py::test_attacks_leak_no_memory_threads_or_descriptors",
            "sandbox/escape/test_soak.py::test_calls_mixed_with_attacks_leave_no_resources",
            "sandbox/escape/test_soak.py::test_kills_leave_no_process_descriptor_permit_or_temporary_file",
            "sandbox/wasi/test_streams.py::test_output_over_the_limit_is_dropped_and_counted",
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
        threat="a guest that sleeps inside a host call, which neither fuel nor epochs interrupt",
        source=HOSTILE,
        tests=(
            _LIMITS + "test_sixty_four_sleeping_guests_do_not_delay_other_calls",
            "sandbox/escape/test_in_process.py::test_the_deadline_ends_a_sleeping_guest",
            "sandbox/escape/test_in_process.py::test_cancelling_ends_a_guest_and_frees_its_permit",
        ),
        attacks=("sleep-an-hour", "sleep-for-ever", "poll-an-hour", "poll-nothing"),
    ),
    Threat(
        threat="bulk operations that run past the epoch",
        source=HOSTILE,
        attacks=("fill-in-a-loop", "copy-in-a-loop", "fill-a-gibibyte"),
    ),
    Threat(
        threat="tables and types that crash the engine",
        source=HOSTILE,
        attacks=("table-growth", "huge-first-table", "tables-without-end"),
    ),
    Threat(
        threat="guest code in start, realloc and post-return functions",
        source=HOSTILE,
        tests=(
            "sandbox/escape/test_component_model.py::test_a_failure_before_any_call_is_an_instantiation_error",
            "sandbox/escape/test_in_process.py::test_a_failure_at_the_start_ends_only_its_component",
        ),
        attacks=("loop-in-start", "loop-in-realloc", "loop-in-post-return", "realloc-points-outside"),
    ),
    Threat(
        threat="bugs in lifting, lowering and transcoding",
        source=HOSTILE,
        tests=(
            "sandbox/escape/test_component_model.py::test_specification_traps_are_typed_errors",
            "sandbox/escape/test_component_model.py::test_specification_invalid_modules_are_typed_errors",
            "sandbox/escape/test_component_model.py::test_specification_link_errors_are_typed_errors",
            "sandbox/escape/test_component_model.py::test_disabled_features_are_rejected",
            "sandbox/escape/test_component_model.py::test_async_components_are_refused",
            "sandbox/escape/test_component_model.py::test_specification_malformed_modules_are_typed_errors",
            "sandbox/escape/test_in_process.py::test_each_trap_of_the_specification_ends_only_its_call",
            "sandbox/escape/test_in_process.py::test_an_invalid_component_is_refused_in_process",
        ),
        attacks=("argument-outside-memory", "enum-out-of-range", "exit"),
    ),
    Threat(
        threat="forged, stale or wrongly typed handles",
        source=HOSTILE,
        tests=("sandbox/wasi/test_streams.py::test_handles_are_not_valid_in_other_calls",),
        attacks=("dropped-twice", "forged-handle", "handle-of-another-kind"),
    ),
    Threat(
        threat="denial of service while compiling",
        source=HOSTILE,
        tests=(
            _LIMITS + "test_compiling_a_huge_component_does_not_delay_calls",
            "sandbox/component/test_counts.py::test_a_count_at_its_limit_passes_and_one_more_is_refused",
            "sandbox/component/test_counts.py::test_the_count_of_instances_equals_their_expansion",
            "sandbox/component/test_counts.py::test_a_product_of_two_counts_over_its_limit_is_refused",
            "runtime/call/test_prepare_beside_compiles.py::"
            "test_compiled_tools_are_ready_while_all_compile_permits_are_in_use",
        ),
        attacks=_names(*(attack for attack in COMPONENTS if attack.name != "trap-in-start")),
    ),
    Threat(
        threat="error text with terminal escapes, or of excessive length",
        source=HOSTILE,
        tests=(
            _ANSWERS + "test_a_guests_error_text_cannot_control_a_terminal",
            _ANSWERS + "test_a_long_error_text_is_truncated",
        ),
        attacks=("terminal-escapes", "terminal-escapes-in-utf-8", "error-of-fifty-megabytes"),
    ),
    Threat(
        threat="an exception of a host function that surfaces in another call",
        source=HOSTILE,
        tests=(
            "sandbox/engine/test_calls.py::test_exceptions_of_host_functions_only_affect_their_call",
            "sandbox/engine/test_calls.py::test_failures_in_concurrent_threads_are_not_mixed",
        ),
    ),
    Threat(
        threat="decompression bombs, and endless headers and responses",
        source=HOSTILE,
        tests=(
            "egress/gateway/test_hostile_servers.py::test_too_many_headers_are_refused",
            "sandbox/escape/test_attacks.py::test_a_server_whose_response_arrives_counts_as_a_failed_check",
            "sandbox/escape/test_attacks.py::test_a_complete_echo_counts_as_a_failed_check",
            "catalog/packages/test_archive_attacks.py::test_extended_headers_are_read_in_linear_time",
        ),
        attacks=_names(*SERVERS),
    ),
    Threat(
        threat="oversized, malformed or almost valid results",
        source=OURS,
        tests=(
            _LIMITS + "test_an_output_over_its_limit_is_refused",
            "sandbox/escape/test_attacks.py::test_an_attack_ends_with_a_typed_error_in_time",
            "sandbox/escape/test_attacks.py::test_an_in_process_attack_ends_with_a_typed_error",
            "sandbox/escape/test_attacks.py::test_an_unexpected_outcome_does_not_count_as_passed",
        ),
        attacks=_names(*(attack for attack in ANSWERS if "escapes" not in attack.name)),
    ),
    Threat(
        threat="millions of values, each of which becomes a host object",
        source=OURS,
        tests=("sandbox/border/test_prepare.py::test_the_number_of_values_in_a_call_is_limited",),
        attacks=_names(*VALUES),
    ),
    Threat(
        threat="a small schema that needs hours or gigabytes to validate a value",
        source=OURS,
        tests=(
            "sandbox/schema/test_validation_work.py::test_a_long_string_that_fails_many_parts_needs_little_memory",
            "sandbox/schema/test_validation_work.py::test_params_with_too_many_steps_are_refused_before_the_check",
            "sandbox/schema/test_validation_work.py::test_accepted_schemas_can_check_params",
        ),
    ),
    Threat(
        threat="parameters that break the host before the guest runs",
        source=OURS,
        tests=(
            _ANSWERS + "test_params_that_are_not_valid_json_do_not_reach_the_guest",
            _ANSWERS + "test_params_nested_ten_thousand_deep_as_objects_are_refused",
            _ANSWERS + "test_params_that_contain_themselves_are_refused",
        ),
    ),
    Threat(
        threat="a guest that makes receipts grow",
        source=OURS,
        tests=(_REACH + "test_a_thousand_refused_lookups_leave_a_limited_record",),
    ),
    Threat(
        threat="modified, removed or truncated receipts",
        source=OURS,
        tests=(
            "runtime/audit/test_verify.py::test_every_changed_added_or_removed_byte_of_a_chain_is_detected",
            "runtime/audit/test_verify.py::test_a_missing_newest_line_is_reported",
            "runtime/audit/test_verify.py::test_a_missing_segment_is_reported_at_any_position",
            "runtime/audit/test_verify.py::test_a_stored_head_detects_a_restored_older_folder",
            "runtime/audit/test_killed.py::test_killed_processes_lose_no_receipts_of_returned_calls",
            "runtime/audit/test_disturbed.py::test_a_counted_line_that_was_cut_at_any_byte_is_reported",
            "runtime/audit/test_disturbed.py::test_a_link_in_the_folder_is_not_followed",
            "runtime/audit/test_disturbed.py::test_the_order_of_receipts_does_not_depend_on_the_clock",
        ),
    ),
    Threat(
        threat="missing, swapped or rolled back chains of receipts",
        source=OURS,
        tests=(
            "runtime/audit/test_chains.py::test_a_missing_chain_is_named",
            "runtime/audit/test_chains.py::test_swapped_chains_are_named",
            "runtime/audit/test_chains.py::test_a_chain_that_was_rolled_back_is_named",
            "runtime/audit/test_chains.py::test_a_lock_that_another_process_holds_does_not_hide_a_rolled_back_chain",
            "runtime/audit/test_chains.py::test_a_chain_of_another_folder_with_the_same_key_is_named",
        ),
    ),
    Threat(
        threat="guessing parameters from their hash in a receipt",
        source=OURS,
        tests=("runtime/audit/test_writer.py::test_text_hashes_depend_on_the_installations_key",),
    ),
    Threat(
        threat="a recording or replay that gains access the call did not have",
        source=OURS,
        tests=(
            "runtime/audit/test_replay.py::test_twenty_recorded_calls_replay_identically_without_a_network",
            "runtime/audit/test_replay.py::test_a_recording_is_private_and_contains_no_secret",
            "runtime/audit/test_replay.py::test_an_invalid_call_id_names_no_file",
        ),
    ),
    Threat(
        threat="errors that reveal details of the host to a guest or an agent",
        source=OURS,
        tests=("sandbox/escape/test_attacks.py::test_a_stopped_attack_learns_nothing_about_the_host",),
    ),
    Threat(
        threat="an import without a security decision",
        source=OURS,
        tests=(
            "sandbox/test_imports.py::test_every_import_is_listed_with_its_policy",
            "sandbox/test_imports.py::test_every_reachable_function_has_a_checked_type",
        ),
    ),
    Threat(
        threat="a response that hides an injected secret beyond a limit of the scanner",
        source=OURS,
        tests=(
            "egress/gateway/test_not_scanned.py::test_secrets_beyond_a_scanner_limit_are_found_or_the_content_is_withheld",
            "egress/gateway/test_not_scanned.py::test_a_response_that_cannot_be_decoded_is_denied_with_its_reason",
            "egress/leaks/test_more_encodings.py::test_a_secret_is_found_in_each_encoding",
            "egress/leaks/test_more_encodings.py::test_a_secret_is_not_shown_by_a_stream_in_any_encoding",
        ),
    ),
    Threat(
        threat="guest text that imitates host messages, or evades the scan",
        source=OURS,
        tests=(
            "sandbox/border/test_what_is_said.py::test_guest_codes_cannot_imitate_host_codes_or_contain_tokens",
            "sandbox/border/test_what_is_said.py::test_errors_are_truncated_after_scanning",
            "sandbox/border/test_what_is_said.py::test_tracebacks_contain_no_terminal_control_sequences",
            "sandbox/wasi/test_streams.py::test_a_written_failure_does_not_replace_the_error_of_a_limit",
            "sandbox/wasi/test_streams.py::test_an_invalid_written_failure_is_only_a_log_line",
        ),
        attacks=("token-across-the-cut", "name-for-a-terminal"),
    ),
    Threat(
        threat="unbounded waits of the host: token endpoint, name server, Redis",
        source=OURS,
        tests=(
            "egress/oauth/test_renewal.py::test_a_silent_endpoint_gets_one_request_and_delays_no_call_past_its_deadline",
            "egress/gateway/test_shares.py::test_unresponsive_lookups_of_one_user_do_not_block_other_users",
            "egress/rates/test_rates.py::test_a_silent_redis_is_waited_for_only_once",
            "sandbox/isolation/test_waits.py::test_a_call_does_not_wait_for_a_process_beyond_its_deadline",
            "sandbox/isolation/test_hostile_frames.py::test_a_worker_that_sends_byte_by_byte_is_killed_at_the_deadline",
        ),
    ),
    Threat(
        threat="an engine bug that runs arbitrary machine code in the worker",
        source=OURS,
        tests=(
            "sandbox/isolation/test_escape.py::test_native_code_finds_no_foreign_data_in_its_memory",
            "sandbox/isolation/test_escape.py::test_other_system_calls_of_native_code_are_killed_by_the_kernel",
            "sandbox/isolation/test_what_a_worker_holds.py::test_an_injected_secret_is_only_in_the_host_process",
            "sandbox/isolation/test_hostile_frames.py::test_arbitrary_frames_do_not_harm_the_host",
            "sandbox/isolation/test_what_a_worker_holds.py::test_each_component_has_an_address_layout_of_its_own",
            "sandbox/isolation/test_code_pages.py::test_a_compromised_worker_that_makes_code_is_killed",
            "sandbox/isolation/test_lying_workers.py::test_a_frame_that_an_earlier_call_left_over_ends_the_worker",
            "sandbox/isolation/test_texts_of_workers.py::test_an_error_of_a_worker_has_no_control_characters",
        ),
    ),
    Threat(
        threat="a worker that dies during a call",
        source=OURS,
        tests=("sandbox/isolation/test_kills.py::test_a_worker_killed_at_any_message_ends_the_call_once",),
    ),
    Threat(
        threat="the build script of an untrusted project",
        source=OURS,
        tests=(
            "authoring/test_confined_build.py::test_a_build_script_reaches_the_project_and_nothing_else",
            "authoring/test_confined_build.py::test_a_hostile_build_script_of_rust_is_refused",
        ),
    ),
    Threat(
        threat="an unapproved call, made with the answer for a different, old, cancelled or forged request",
        source=OURS,
        tests=(
            "agent/approvals/test_approvals.py::test_an_approval_does_not_apply_to_a_different_request",
            "agent/first_party/test_diff_approvals.py::test_a_call_is_refused_if_its_result_differs_from_the_approved_one",
            "agent/approvals/test_summary.py::test_an_answer_for_the_session_applies_only_to_the_same_targets",
            "agent/approvals/test_approvals.py::test_a_function_that_fails_or_returns_another_type_denies",
            "agent/approvals/test_approvals.py::test_cancelling_withdraws_and_later_answers_have_no_effect",
            "agent/approvals/test_patterns.py::test_a_param_that_is_not_widened_matches_no_other_value",
            "agent/approvals/test_patterns.py::test_a_matching_path_is_below_its_folder",
            "agent/approvals/test_store.py::test_a_second_answer_has_no_effect",
            "agent/approvals/test_store.py::test_an_answer_by_another_user_has_no_effect",
            "agent/approvals/test_store.py::test_an_answer_for_another_version_has_no_effect",
            "agent/approvals/test_store.py::test_the_file_is_private_and_a_readable_one_is_rejected",
        ),
    ),
    Threat(
        threat="double use of an approval or a token",
        source=OURS,
        tests=(
            "agent/approvals/test_kills.py::test_killed_processes_neither_lose_nor_repeat_answers",
            "agent/approvals/test_tokens.py::test_only_one_of_two_concurrent_processes_uses_a_token",
            "agent/approvals/test_tokens.py::test_a_token_used_by_a_killed_process_stays_used",
            "agent/approvals/test_tokens.py::test_hosts_that_share_store_and_key_share_tokens",
            "agent/approvals/test_tokens.py::test_without_the_database_no_token_is_accepted",
            "agent/approvals/test_hosts.py::test_an_answer_on_one_host_is_used_once_on_the_other",
            "agent/approvals/test_hosts.py::test_requests_of_another_host_lapse_when_its_lease_ends",
            "agent/approvals/test_hosts.py::test_without_the_database_nothing_is_asked_answered_or_remembered",
            "core/test_postgres.py::test_writers_exclude_each_other",
        ),
    ),
    Threat(
        threat="a false database server on the network, or a standby with old answers",
        source=OURS,
        tests=(
            "core/test_postgres.py::test_the_certificate_of_another_host_is_checked",
            "core/test_postgres.py::test_a_url_that_is_invalid_or_without_tls_is_refused",
        ),
    ),
    Threat(
        threat="a confirmation token that is forged, for another call, or revived by setting the clock back",
        source=OURS,
        tests=(
            "agent/approvals/test_tokens.py::test_a_token_for_another_call_is_rejected_and_stays_unused",
            "agent/approvals/test_tokens.py::test_a_modified_or_foreign_token_is_rejected",
            "agent/approvals/test_tokens.py::test_setting_the_clock_back_does_not_extend_a_token",
            "agent/approvals/test_tokens.py::test_losing_the_store_invalidates_its_tokens",
        ),
    ),
    Threat(
        threat="request text that injects an answer, or shows a different call than the one made",
        source=OURS,
        tests=(
            "agent/approvals/test_terminal.py::test_untrusted_text_cannot_control_the_terminal_or_imitate_wasmrt",
            "agent/approvals/test_terminal.py::test_requests_are_shown_one_at_a_time_and_earlier_keys_are_ignored",
            "agent/approvals/test_approvals.py::test_later_changes_of_params_do_not_affect_the_request",
            "agent/approvals/test_shown_and_run.py::test_the_shown_params_are_those_that_run",
            "agent/approvals/test_shown_and_run.py::test_an_invisible_character_is_shown_as_an_escape",
        ),
    ),
    Threat(
        threat="a page, link or local program that answers on the approvals page",
        source=OURS,
        tests=(
            *(
                f"interop/pages/test_protection.py::test_{name}"
                for name in (
                    "without_a_session_pages_and_forms_are_refused",
                    "a_bearer_token_does_not_open_pages",
                    "a_link_works_once_and_prefetching_does_not_use_it",
                    "a_form_without_the_sessions_token_is_refused",
                    "a_form_from_another_or_no_origin_is_refused",
                    "pages_are_not_served_to_a_rebound_name",
                    "paths_are_compared_and_never_resolved",
                )
            ),
            "interop/pages/test_browser.py::test_a_page_of_another_origin_cannot_read_or_answer",
            "interop/pages/test_answers.py::test_of_concurrent_answers_one_counts_and_the_others_are_informed",
            "interop/pages/test_answers.py::test_a_truncated_request_cannot_be_allowed_from_the_list",
            "cli/test_cli_approvals_web.py::test_browser_command_line_does_not_contain_the_link",
        ),
    ),
    Threat(
        threat="text of a tool or a model that becomes markup, or is hidden, on the approvals page",
        source=OURS,
        tests=(
            "interop/pages/test_protection.py::test_untrusted_text_is_escaped_and_cannot_hide_other_text",
            "interop/pages/test_protection.py::test_every_page_has_a_content_security_policy_and_cannot_be_framed",
            "interop/pages/test_browser.py::test_hostile_texts_are_harmless_in_a_browser",
            "interop/pages/test_browser.py::test_the_content_security_policy_blocks_inline_scripts_and_styles",
        ),
    ),
    Threat(
        threat="smuggled, excessive, stalled or cross-origin requests to the web server",
        source=OURS,
        tests=(
            *(
                f"interop/web/test_hostile_requests.py::test_{name}"
                for name in (
                    "an_ambiguous_request_is_refused",
                    "malformed_chunks_and_trailers_are_refused",
                    "a_rebound_host_name_is_refused",
                    "requests_from_other_origins_are_refused",
                    "oversized_heads_and_bodies_are_refused_while_they_arrive",
                    "a_client_that_sends_too_far_ahead_is_disconnected",
                )
            ),
            "interop/web/test_server.py::test_slow_and_silent_clients_are_disconnected",
            "interop/web/test_server.py::test_a_client_that_does_not_read_is_disconnected",
            "interop/web/test_server.py::test_connections_are_limited_per_client",
        ),
    ),
    Threat(
        threat="a tool that changes an agent's identity files or the files that control tools",
        source=OURS,
        tests=(
            "capabilities/test_workspace_write.py::test_an_identity_file_is_protected_in_every_spelling",
            "capabilities/test_workspace_write.py::test_no_indirect_path_reaches_an_identity_file",
            "runtime/workspace/test_workspace_writer.py::test_wasmrts_own_settings_are_never_writable",
            "runtime/workspace/test_workspace_writer.py::test_only_a_folder_created_by_the_call_can_be_moved",
        ),
    ),
    Threat(
        threat="a tool that fills the disk, or leaves an incomplete file",
        source=OURS,
        tests=(
            "runtime/workspace/test_workspace_writer.py::test_limits_are_checked_before_a_byte_is_written",
            "runtime/workspace/test_workspace_writer.py::test_a_full_disk_leaves_only_the_old_file",
            "runtime/workspace/test_workspace_writer.py::test_a_process_killed_during_a_write_leaves_a_whole_file",
            "sandbox/programs/test_program_writes.py::test_a_trapped_program_leaves_the_old_content",
        ),
    ),
    Threat(
        threat="irreversible overwriting or removal of files by a tool",
        source=OURS,
        tests=(
            "runtime/workspace/test_undo.py::test_undo_is_the_inverse_of_any_call",
            "runtime/workspace/test_undo.py::test_undo_is_the_inverse_of_a_call_with_failed_changes",
            "runtime/workspace/test_undo.py::test_a_user_cannot_evict_calls_of_users_with_less",
            "runtime/workspace/test_undo.py::test_an_interrupted_undo_can_be_resumed",
            "runtime/workspace/test_undo.py::test_a_file_that_could_not_be_stored_is_not_changed",
            "runtime/workspace/test_undo.py::test_later_changes_stop_an_undo_unless_forced",
            "runtime/workspace/test_undo.py::test_after_a_kill_files_are_whole_and_the_call_can_be_undone",
            "runtime/workspace/test_undo_races.py::test_an_undo_after_a_persons_change_changes_nothing",
            "runtime/workspace/test_undo_races.py::test_a_change_between_two_steps_of_an_undo_is_kept",
            "runtime/workspace/test_undo_races.py::test_of_several_undos_at_once_one_is_carried_out",
        ),
    ),
    Threat(
        threat="a registry that sends other content, or directs a login or a request to another host",
        source=OURS,
        tests=(
            _REGISTRIES + "test_no_lie_installs_anything_or_reaches_another_server",
            _REGISTRIES + "test_a_pull_without_a_login_asks_no_realm_inside_for_a_token",
            _REGISTRIES + "test_a_login_and_its_token_are_sent_only_to_the_registry",
            _REGISTRIES + "test_a_name_that_moves_inside_between_two_requests_is_refused",
        ),
    ),
    Threat(
        threat="a manipulated journal or link that redirects the writes of an undo",
        source=OURS,
        tests=(
            "runtime/workspace/test_undo.py::test_a_damaged_journal_is_reported_and_not_followed",
            "runtime/workspace/test_undo.py::test_links_cannot_lead_an_undo_out_of_the_workspace",
            "runtime/workspace/test_undo.py::test_damaged_content_in_the_journal_is_not_restored",
            "runtime/workspace/test_undo_races.py::test_an_undo_below_a_renamed_folder_changes_nothing",
        ),
    ),
    Threat(
        threat="a first-party tool that exceeds its section of the capability file",
        source=OURS,
        tests=(
            "agent/first_party/test_files.py::test_each_tool_is_limited_to_its_own_grant",
            "agent/first_party/test_files.py::test_paths_cannot_leave_the_workspace",
            "agent/first_party/test_files.py::test_concurrent_folder_changes_do_not_allow_escapes",
            "agent/first_party/test_files.py::test_vault_can_only_be_copied_from",
            "agent/first_party/test_files.py::test_narrower_grant_applies_and_its_denial_names_the_entry",
            "agent/first_party/test_html_to_markdown.py::test_hostile_pages_return_a_result_or_a_clear_error",
        ),
    ),
    Threat(
        threat="a page or a model that uses a web tool to reach internal hosts, or to extract secrets or keys",
        source=OURS,
        tests=(
            "agent/first_party/test_web_attacks.py::test_internal_addresses_and_names_are_refused",
            "agent/first_party/test_web_attacks.py::test_redirects_to_internal_hosts_are_refused",
            "agent/first_party/test_web_attacks.py::test_dns_rebinding_to_an_internal_address_is_refused",
            "agent/first_party/test_web_attacks.py::test_secrets_in_any_part_of_a_request_are_refused",
            "agent/first_party/test_web_attacks.py::test_headers_cannot_smuggle_requests_or_set_the_host",
            "agent/first_party/test_web_attacks.py::test_oversized_response_is_a_clear_error",
            "agent/first_party/test_web_attacks.py::test_instructions_in_a_page_stay_wrapped_and_mark_the_trace",
            "agent/first_party/test_web_search.py::test_key_is_not_available_to_other_tools_or_queries",
            "agent/first_party/test_web_search.py::test_echoed_key_is_redacted_from_the_result",
        ),
    ),
    Threat(
        threat="a model that gets a tool installed, granted or offered without a user's review",
        source=OURS,
        tests=(
            "agent/extensions/test_extension_tools.py::test_without_an_approver_nothing_is_installed_and_the_command_is_shown",
            "agent/extensions/test_extension_tools.py::test_params_cannot_contain_a_grant_or_an_approval",
            "agent/extensions/test_extension_tools.py::test_allow_rules_do_not_replace_the_approval",
            "agent/extensions/test_extension_tools.py::test_confirmation_token_does_not_replace_the_approval",
            "agent/extensions/test_extension_tools.py::test_package_that_changes_during_approval_is_not_installed",
            "agent/extensions/test_extension_tools.py::test_package_from_an_allowed_host_has_no_grant_until_a_user_adds_one",
            "agent/extensions/test_extension_tools.py::test_installed_and_activated_tools_still_obey_the_policy",
            "agent/extensions/test_servers.py::test_server_without_approval_is_neither_started_nor_stored",
            "catalog/packages/test_archive_attacks.py::test_a_tar_archive_with_a_trick_is_not_installed",
            "catalog/packages/test_archive_attacks.py::test_a_zip_archive_with_a_trick_is_not_installed",
            "cli/test_cli_export.py::test_no_manipulated_archive_is_imported",
            "cli/test_cli_export.py::test_a_grant_in_an_archive_never_exceeds_the_request",
            "cli/test_cli_export.py::test_one_answer_imports_all_tools_or_none",
        ),
    ),
    Threat(
        threat="a model that names a forbidden path, host or tool",
        source=OURS,
        tests=(
            "agent/extensions/test_extension_tools.py::test_tool_names_cannot_be_paths",
            "agent/extensions/test_extension_tools.py::test_links_out_of_the_operators_folder_cannot_be_installed",
            "agent/extensions/test_extension_tools.py::test_packages_cannot_have_names_similar_to_existing_tools",
            "agent/extensions/test_extension_tools.py::test_host_that_is_not_allowed_is_refused_before_approval",
            "agent/skills/test_skill_tools.py::test_redirect_to_a_different_host_or_private_address_is_refused",
            "agent/skills/test_skill_tools.py::test_allowed_host_with_a_private_address_receives_no_request",
            "agent/extensions/test_extension_tools.py::test_auth_checks_only_the_secrets_of_the_calling_user",
        ),
    ),
    Threat(
        threat="a skill with hidden content or links, or that changes after approval",
        source=OURS,
        tests=(
            "agent/skills/test_skill_tools.py::test_invisible_characters_in_any_file_refuse_the_skill",
            "agent/skills/test_skill_tools.py::test_chat_template_markers_are_shown_to_the_approver_and_defused_for_a_model",
            "agent/skills/test_skill_tools.py::test_installed_skill_is_untrusted_until_a_user_trusts_it",
            "agent/skills/test_skill_tools.py::test_skill_cannot_read_files_of_a_different_skill",
            "agent/skills/test_skill_tools.py::test_skill_folder_with_special_files_is_refused",
            "agent/skills/test_skill_tools.py::test_folder_replaced_during_reading_yields_no_outside_file",
            "agent/skills/test_skill_tools.py::test_changed_skill_is_not_read_until_a_user_trusts_it",
            "agent/skills/test_skill_tools.py::test_writable_skill_folders_are_refused",
            "agent/skills/test_front_matter.py::test_dangerous_yaml_features_are_rejected_by_name",
            "agent/skills/test_front_matter.py::test_alias_bomb_is_rejected_before_expansion",
            "agent/skills/test_skill_races.py::test_an_interrupted_update_never_gets_the_trust_of_the_old_version",
        ),
    ),
    Threat(
        threat="a native plugin that exceeds its granted files, network or lifetime",
        source=OURS,
        tests=tuple(
            f"agent/plugins/test_hostile_plugins.py::test_{name}"
            for name in (
                "kernel_refuses_access_without_a_grant",
                "native_plugin_cannot_write_the_workspace",
                "native_plugin_writes_only_granted_paths",
                "network_must_be_required_and_allowed",
                "surviving_children_are_ended_without_delaying_the_call",
                "plugin_that_ignores_signals_is_killed_with_its_children",
                "program_changed_after_loading_does_not_run",
                "program_swapped_between_its_check_and_its_start_does_not_run",
                "environment_of_wasmrt_is_not_inherited",
            )
        ),
    ),
    Threat(
        threat="a command line that destroys data, changes the user, or hides a command",
        source="seed 001, section 4.6",
        tests=tuple(
            f"agent/shell/{name}"
            for name in (
                "test_lists.py::test_each_rule_decides_its_examples_and_is_named_in_the_verdict",
                "test_lines.py::test_harmful_lines_are_refused_or_require_approval",
                "test_lines.py::test_harmful_command_is_found_in_any_position",
                "test_lines.py::test_words_are_expanded_like_in_bash",
                "test_lines.py::test_unparsable_command_lines_are_refused",
                "test_shell_tool.py::test_rule_approves_only_harmless_commands",
                "test_shell_tool.py::test_without_confinement_no_command_runs",
            )
        ),
    ),
    Threat(
        threat="a command that exceeds the shell's files, network, output or lifetime",
        source=OURS,
        tests=tuple(
            f"agent/shell/{name}"
            for name in (
                "test_escapes.py::test_all_escape_attempts_fail_and_over_forty_work_outside",
                "test_confined.py::test_command_sees_only_allowed_environment_variables",
                "test_confined.py::test_command_past_its_deadline_is_ended_with_its_processes",
                "test_confined.py::test_workspace_that_contains_wasmrt_folders_is_refused",
                "test_confined.py::test_long_output_keeps_its_beginning_and_its_end",
                "test_confined.py::test_memory_of_a_command_is_limited",
                "test_confined.py::test_secrets_in_the_output_of_a_command_are_redacted",
                "test_git_files.py::test_planted_program_does_not_run_in_the_next_git_status",
                "test_git_files.py::test_hooks_and_nested_repositories_are_restored",
            )
        ),
    ),
    Threat(
        threat="a program granted one host reaches another host, or another service at its addresses",
        source=OURS,
        tests=(
            *(
                f"sandbox/isolation/test_outlet.py::test_{name}"
                for name in (
                    "more_than_sixty_ways_around_the_proxy_fail",
                    "the_proxy_of_a_run_cannot_be_used_afterwards",
                    "other_processes_cannot_reach_the_proxys_port",
                    "open_connections_end_with_the_proxy",
                    "tunnels_have_a_maximum_duration",
                    "plain_http_bodies_are_limited",
                    "tunnels_are_limited_for_each_user",
                    "without_network_namespaces_no_program_is_started",
                    "a_grant_that_cannot_be_enforced_is_refused",
                )
            ),
            "agent/shell/test_shell_network.py::test_shell_is_disabled_if_the_network_cannot_be_confined",
            "interop/mcp_client/test_program_network.py::test_connections_to_granted_hosts_are_in_the_receipt",
        ),
    ),
    Threat(
        threat="the package of an MCP server runs code while it is installed, changes later, or widens its confinement",
        source=OURS,
        tests=tuple(
            f"interop/mcp_packages/{test}"
            for test in (
                "test_packages.py::test_a_package_of_pypi_is_pinned_runs_without_network_is_updated_and_removed",
                "test_packages.py::test_a_wheel_that_replaces_files_of_its_environment_is_refused",
                "test_packages.py::test_a_package_of_npm_runs_without_its_install_scripts",
                "test_packages.py::test_a_program_outside_its_npm_package_or_not_for_node_is_refused",
                "test_runners.py::test_commands_that_cannot_work_are_refused_with_the_command_to_use",
            )
        ),
    ),
    Threat(
        threat="a command prepares the shell so that a later one evades the lists or an approval",
        source=OURS,
        tests=tuple(
            f"agent/shell/test_sessions.py::test_{name}"
            for name in (
                "lists_take_the_stored_state_into_account",
                "only_directory_and_variables_reach_the_next_command",
                "report_of_a_command_is_only_data",
                "malformed_reports_change_nothing",
                "sessions_are_separate_for_users_and_conversations",
                "approval_covers_only_the_shown_state",
                "changed_session_requires_a_new_decision",
                "size_of_a_session_is_limited",
                "sessions_and_network_are_not_available_on_the_host",
            )
        ),
    ),
    Threat(
        threat="a browser page that reaches internal hosts, sends data, or outlives its call",
        source=OURS,
        tests=tuple(
            f"agent/desktop/test_pages.py::{name}"
            for name in (
                "test_page_runs_scripts_and_reaches_only_public_hosts",
                "test_redirect_to_a_different_site_is_reported_and_not_followed",
                "test_page_that_never_loads_ends_with_its_browser",
                "test_requests_and_bytes_of_a_page_are_limited",
                "test_secrets_in_page_urls_are_not_sent",
            )
        ),
    ),
    Threat(
        threat="mouse and keyboard used by a model in a window that no approver saw, or without an approval",
        source=OURS,
        tests=tuple(
            f"agent/desktop/test_screen.py::{name}"
            for name in (
                "test_text_is_typed_into_the_named_window_after_the_approver_saw_both",
                "test_input_is_refused_if_the_window_changed_since_the_approval",
                "test_covered_window_gets_no_click",
                "test_denied_input_is_not_sent",
                "test_control_characters_and_long_texts_are_not_typed",
                "test_screen_is_private_and_untrusted_and_always_requires_approval",
                "test_wayland_session_and_missing_library_are_refused_with_the_next_step",
            )
        ),
    ),
    Threat(
        threat="desktop tools misused by a model: pasted commands, markup, applications, passwords",
        source=OURS,
        tests=tuple(
            f"agent/desktop/test_desktop.py::{name}"
            for name in (
                "test_control_characters_are_not_written_to_the_clipboard",
                "test_notification_names_the_agent_and_has_no_markup",
                "test_application_that_is_not_allowed_is_refused_with_the_setting",
                "test_program_gets_only_the_session_variables",
                "test_clipboard_access_requires_approval_or_confirmation",
                "test_desktop_tools_are_disabled_by_default_and_listed_as_disabled",
            )
        ),
    ),
    Threat(
        threat="a plugin or program with an oversized answer, or an answer to a different request",
        source=OURS,
        tests=(
            "agent/plugins/test_hostile_plugins.py::test_endless_output_ends_the_plugin_at_the_limit",
            "agent/plugins/test_hostile_plugins.py::test_response_to_a_different_request_is_rejected",
            "agent/plugins/test_hostile_plugins.py::test_two_responses_are_malformed",
            "agent/plugins/test_hostile_plugins.py::test_secrets_in_the_output_are_redacted",
            "sandbox/programs/test_programs.py::test_endless_output_ends_at_the_result_limit",
            "sandbox/programs/test_programs.py::test_a_printed_secret_is_redacted_from_results_and_errors",
        ),
    ),
    Threat(
        threat="an MCP client that sends broken or endless messages, or reads none",
        source=OURS,
        tests=tuple(
            f"interop/mcp_server/test_hostile_clients.py::test_{name}"
            for name in (
                "malformed_messages_get_an_error_and_change_nothing",
                "invalid_requests_are_refused",
                "a_64_mib_line_is_refused_once_and_not_stored",
                "the_id_of_a_running_request_cannot_be_reused",
                "pending_requests_are_limited",
                "reading_stops_while_responses_are_unread",
                "the_server_exits_if_the_client_leaves_during_a_response",
            )
        ),
    ),
    Threat(
        threat="a client that opens the approval page itself, or claims that its user answered there",
        source=OURS,
        tests=(
            "interop/mcp_server/test_url_elicitation.py::test_an_accepted_elicitation_does_not_approve_the_call",
            "interop/mcp_server/test_url_elicitation.py::test_form_content_is_ignored_if_a_page_was_to_be_opened",
            "interop/mcp_server/test_url_elicitation.py::test_pages_are_separate_for_each_user",
            "interop/pages/test_ask.py::test_the_page_of_an_address_reveals_nothing_about_the_request",
            "interop/pages/test_ask.py::test_a_request_page_without_a_session_accepts_no_answers",
            "interop/pages/test_ask.py::test_the_address_of_a_killed_process_is_ignored",
            "interop/pages/test_browser.py::test_a_request_address_opens_nothing_without_a_session",
        ),
    ),
    Threat(
        threat="an access token that is forged, issued for another server, or signed by a key embedded in it",
        source=OURS,
        tests=tuple(
            f"interop/mcp_server/test_access_tokens.py::test_{name}"
            for name in (
                "forged_tokens_are_refused",
                "a_token_of_an_unknown_user_is_forbidden",
                "a_token_in_the_url_is_refused_despite_a_valid_header",
                "several_headers_with_tokens_are_refused",
                "a_key_for_another_use_verifies_no_token",
                "keys_are_not_fetched_from_a_server_with_an_untrusted_certificate",
                "a_malformed_key_set_is_ignored",
                "users_of_access_tokens_are_separate",
                "no_part_of_a_token_is_in_a_response",
            )
        ),
    ),
    Threat(
        threat="tokens that cause endless requests to an authorization server, or are accepted while it is unreachable",
        source=OURS,
        tests=(
            "interop/mcp_server/test_access_tokens.py::test_unknown_key_ids_trigger_rate_limited_fetches",
            "interop/mcp_server/test_access_tokens.py::test_keys_are_used_for_a_day_if_fetching_fails",
            "interop/mcp_server/test_access_tokens.py::test_concurrent_tokens_trigger_one_fetch_of_the_keys",
        ),
    ),
    Threat(
        threat="operator pages reachable under the public name of the MCP endpoint",
        source=OURS,
        tests=("interop/mcp_server/test_access_tokens.py::test_local_pages_are_not_served_under_the_public_origin",),
    ),
    Threat(
        threat="refused MCP messages that leave no record, or fill the disk with receipts",
        source=OURS,
        tests=tuple(
            f"interop/mcp_server/test_refusals.py::test_{name}"
            for name in (
                "a_flood_of_refusals_makes_two_receipts_with_counts",
                "receipts_of_refusals_contain_no_client_data",
                "refusals_are_counted_by_kind_and_user",
                "separately_counted_users_are_limited",
                "unwritten_counts_are_kept_and_written_later",
            )
        ),
    ),
    Threat(
        threat="an MCP client that answers instead of the user, or for another call",
        source=OURS,
        tests=(
            "interop/mcp_server/test_approvals.py::test_with_the_queue_approver_client_answers_are_ignored",
            "interop/mcp_server/test_approvals.py::test_a_state_is_used_once",
            "interop/mcp_server/test_approvals.py::test_a_state_is_bound_to_its_tool_and_arguments",
            "interop/mcp_server/test_approvals.py::test_a_modified_or_forged_state_is_refused",
            "interop/mcp_server/test_approvals.py::test_an_unrequested_response_changes_nothing",
            "interop/mcp_server/test_hostile_clients.py::test_call_parameters_cannot_imitate_wasmrt_in_a_form",
        ),
    ),
    Threat(
        threat="a tool or a model that gains more access than a user approved, or floods the user with requests",
        source=OURS,
        tests=(
            "agent/access/test_growth.py::test_a_grant_is_extended_by_exactly_the_entry",
            "agent/access/test_growth.py::test_only_the_requesting_tool_of_a_component_gets_the_entry",
            "agent/access/test_attacks.py::test_a_narrower_entry_must_not_be_wider",
            "agent/access/test_attacks.py::test_an_answer_after_an_update_of_the_tool_grants_nothing",
            "agent/access/test_attacks.py::test_an_answer_after_a_change_of_the_grant_grants_nothing",
            "agent/access/test_attacks.py::test_another_users_answer_has_no_effect_and_reveals_nothing",
            "agent/access/test_attacks.py::test_a_request_is_answered_once",
            "agent/access/test_attacks.py::test_a_once_answer_is_used_by_one_of_several_concurrent_calls",
            "agent/access/test_attacks.py::test_revoked_access_does_not_return_in_the_requesting_session",
            "agent/access/test_attacks.py::test_a_path_that_imitates_an_approval_is_shown_as_data",
            "agent/access/test_attacks.py::test_a_tool_denied_repeatedly_cannot_request_more_access",
            "catalog/installer/test_install_flow.py::test_a_decision_about_a_tool_that_has_changed_since_is_refused",
        ),
    ),
    Threat(
        threat="untrusted text stored in an agent's memory and treated as trusted in another conversation",
        source=OURS,
        tests=(
            "agent/memory/test_tools.py::test_untrusted_text_stays_untrusted_in_a_new_process",
            "agent/memory/test_tools.py::test_result_labels_of_a_rule_do_not_hide_stored_untrusted_labels",
            "agent/memory/test_tools.py::test_untrusted_path_stays_untrusted_until_a_user_writes_to_it",
            "agent/memory/test_tools.py::test_labels_reported_by_an_untrusted_tool_are_ignored",
            "agent/memory/test_attacks.py::test_stored_untrusted_text_is_marked_and_cannot_imitate_tool_output",
            "agent/memory/test_documents.py::test_restored_version_is_a_new_version_with_the_old_trust",
            "agent/flows/test_laundering.py::test_untrusted_text_stays_untrusted_in_the_next_conversation",
            "agent/flows/test_laundering.py::test_private_text_stays_private_in_the_next_conversation",
        ),
    ),
    Threat(
        threat="a server that uses the name or the schemas of a known one, so that its declarations apply",
        source=OURS,
        tests=(
            "interop/mcp_client/test_trust.py::test_a_server_cannot_take_the_declarations_of_a_package_by_its_name_or_schemas",
            "interop/mcp_client/test_trust.py::test_declarations_decide_effects_and_results_only_for_local_servers",
            "interop/mcp_client/test_trust.py::test_a_declaration_adds_no_effect_that_the_server_was_not_granted",
            "agent/flows/test_declared.py::test_a_declaration_applies_only_to_the_declared_schema",
            "agent/flows/test_declared.py::test_a_name_cannot_choose_a_file_elsewhere",
        ),
    ),
    Threat(
        threat="a model that writes identity documents, reads another user's memory, or fills it",
        source=OURS,
        tests=(
            "agent/memory/test_attacks.py::test_tools_cannot_write_identity_files_under_any_spelling",
            "agent/memory/test_attacks.py::test_invalid_paths_are_rejected_and_create_no_file",
            "agent/memory/test_attacks.py::test_users_cannot_read_the_memory_of_other_users",
            "agent/memory/test_attacks.py::test_queries_cannot_use_the_index_syntax",
            "agent/memory/test_attacks.py::test_chunks_are_searchable_up_to_the_limit_and_rejected_beyond_it",
            "agent/memory/test_attacks.py::test_query_ends_at_the_deadline_of_its_call",
            "agent/memory/test_documents.py::test_full_memory_drops_old_versions_but_never_current_content",
        ),
    ),
    Threat(
        threat="a secret stored in an agent's memory, or memory lost in a crash or by a bad disk",
        source=OURS,
        tests=(
            "agent/memory/test_attacks.py::test_secrets_are_neither_stored_nor_returned",
            "agent/memory/test_attacks.py::test_unusable_database_raises_a_typed_error_and_is_not_modified",
            "agent/memory/test_kills.py::test_killed_writer_leaves_the_old_or_the_new_document",
            "agent/memory/test_kills.py::test_concurrent_writers_in_several_processes_lose_no_text",
        ),
    ),
    Threat(
        threat="a browser page, or a program without a token, that calls tools over HTTP",
        source=OURS,
        tests=(
            "interop/mcp_server/test_http.py::test_requests_from_web_pages_and_rebound_names_are_refused",
            "interop/mcp_server/test_http.py::test_requests_without_a_valid_token_are_refused",
            "interop/mcp_server/test_http.py::test_a_token_in_the_url_is_refused",
            "interop/mcp_server/test_http.py::test_users_are_kept_apart",
            "interop/mcp_server/test_http.py::test_headers_that_differ_from_the_body_are_refused",
        ),
    ),
)

COVERED_ATTACKS = frozenset(name for threat in THREATS for name in threat.attacks)
KNOWN_ATTACKS = frozenset(_names(*CPU, *MEMORY, *HOST, *REACH, *ANSWERS, *VALUES, *SERVERS, *COMPONENTS))
