/* {{name}}: returns the temperature at a place. Edit `run`, its schema and the arguments of PROVIDE; keep wasmrt.h. */

#include "wasmrt.h"

#define SCHEMA                                                                                                          \
    "{\"type\": \"object\", \"properties\": {"                                                                          \
    "\"place\": {\"type\": \"string\", \"description\": \"A place listed in weather/places.txt\"}, "                    \
    "\"unit\": {\"type\": \"string\", \"enum\": [\"celsius\", \"fahrenheit\"], \"description\": \"Default: celsius\"}}, " \
    "\"required\": [\"place\"], \"additionalProperties\": false}"

/* Returns the next word of a line, or an empty text. */
static text word(text *rest) {
    u32 start = 0, end;
    while (start < rest->len && rest->at[start] == ' ') start++;
    for (end = start; end < rest->len && rest->at[end] > ' '; end++) {}
    text found = {rest->at + start, end - start};
    *rest = (text){rest->at + end, rest->len - end};
    return found;
}

/* Each line of the file is a name, a latitude and a longitude. The names are collected for the error message. */
static int coordinates(text file, text place, text *latitude, text *longitude, builder *known) {
    for (u32 at = 0; at < file.len;) {
        u32 end = at;
        while (end < file.len && file.at[end] != '\n') end++;
        text line = {file.at + at, end - at}, name = word(&line);
        *latitude = word(&line);
        *longitude = word(&line);
        at = end + 1;
        if (!longitude->len) continue;
        if (same(name, place)) return 1;
        if (known->len) put(known, TEXT(", "));
        put(known, name);
    }
    return 0;
}

static result unknown_place(text place, const builder *known) {
    builder message = {0, 0, 0};
    put(&message, TEXT("there is no place "));
    put_string(&message, place);
    put(&message, TEXT(", only "));
    put(&message, built(known));
    return fail(INPUT, TEXT("unknown-place"), built(&message));
}

static text address(text latitude, text longitude, text unit) {
    builder url = {0, 0, 0};
    put(&url, TEXT("https://api.open-meteo.com/v1/forecast?latitude="));
    put(&url, latitude);
    put(&url, TEXT("&longitude="));
    put(&url, longitude);
    put(&url, TEXT("&current=temperature_2m&temperature_unit="));
    put(&url, unit);
    return built(&url);
}

static result run(text params, text context) {
    (void)context;
    text place, unit = TEXT("celsius"), latitude, longitude;
    if (!json_string(params, TEXT("place"), &place))
        return fail(INPUT, TEXT("invalid-params"), TEXT("place must be a string"));
    json_string(params, TEXT("unit"), &unit);

    /* A refused or missing file is the host's failure, passed on unchanged. */
    result file = read_file(TEXT("weather/places.txt"));
    if (file.failed) return file;
    builder known = {0, 0, 0};
    if (!coordinates(file.ok, place, &latitude, &longitude, &known)) return unknown_place(place, &known);
    progress(1, 2, TEXT("found the place"));

    text url = address(latitude, longitude, unit);
    say(INFO, url);
    header accept = {TEXT("accept"), TEXT("application/json")};
    response got = fetch(GET, url, &accept, 1, 0);
    if (got.failed) return (result){.failed = 1, .error = got.error};
    if (got.ok.status != 200) {
        builder message = {0, 0, 0};
        put(&message, TEXT("the API answered with status "));
        put_number(&message, got.ok.status);
        return fail(OPERATION_FAILED, TEXT("bad-status"), built(&message));
    }
    text temperature = json_member(json_member(got.ok.body, TEXT("current")), TEXT("temperature_2m"));
    if (!temperature.len) return fail(OPERATION_FAILED, TEXT("bad-answer"), TEXT("the API's answer has no temperature"));
    progress(2, 2, TEXT(""));

    builder answer = {0, 0, 0};
    put(&answer, TEXT("{\"place\": "));
    put_string(&answer, place);
    put(&answer, TEXT(", \"temperature\": "));
    put(&answer, temperature);
    put(&answer, TEXT(", \"unit\": "));
    put_string(&answer, unit);
    put_byte(&answer, '}');
    return success(built(&answer));
}

PROVIDE(run, {
    .name = TEXT_INIT("{{name}}"),
    .description = TEXT_INIT("Tells how warm it is at a place."),
    .schema = TEXT_INIT(SCHEMA),
    .read_only = 1,
    .network = 1,
});
