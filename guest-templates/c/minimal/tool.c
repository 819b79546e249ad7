/* {{name}}: counts the words of a text. Edit `run`, its schema and the arguments of PROVIDE; keep wasmrt.h. */

#include "wasmrt.h"

#define SCHEMA                                                                \
    "{\"type\": \"object\", \"properties\": {\"text\": {\"type\": \"string\"}}, " \
    "\"required\": [\"text\"], \"additionalProperties\": false}"

static result run(text params, text context) {
    (void)context;
    text words;
    if (!json_string(params, TEXT("text"), &words))
        return fail(INPUT, TEXT("invalid-params"), TEXT("text must be a string"));
    u32 count = 0;
    for (u32 at = 0; at < words.len; at++)
        if (words.at[at] > ' ' && (!at || words.at[at - 1] <= ' ')) count++;
    builder answer = {0, 0, 0};
    put_number(&answer, count);
    return success(built(&answer));
}

PROVIDE(run, {
    .name = TEXT_INIT("{{name}}"),
    .description = TEXT_INIT("Counts the words of a text."),
    .schema = TEXT_INIT(SCHEMA),
    .read_only = 1,
});
