/* The world wasmrt:tool@0.1.0 for freestanding C: the host's functions and a small JSON reader, without a C library.
 * Include it in one file, define `run`, and end with PROVIDE. Memory is never freed: a store lives for one call. */
#ifndef WASMRT_H
#define WASMRT_H

#define WASMRT_IMPORT(interface, name) \
    __attribute__((import_module("wasmrt:tool/" interface "@0.1.0"), import_name(name)))
#define WASMRT_EXPORT(name) __attribute__((export_name("wasmrt:tool/provider@0.1.0#" name)))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

typedef struct {
    const u8 *at;
    u32 len;
} text;

/* TEXT_INIT is for constants of the file, TEXT for all other uses. */
#define TEXT_INIT(literal) {(const u8 *)(literal), sizeof(literal) - 1}
#define TEXT(literal) ((text)TEXT_INIT(literal))

/* failures */

typedef enum {
    AUTH_REQUIRED, INPUT, OUTPUT_TOO_LARGE, EXECUTOR, NETWORK_DENIED, CLIENT, OPERATION_FAILED
} failure_kind;

typedef struct {
    u8 kind;
    struct {
        u8 given;
        text word;
    } code;
    text message;
} failure;

/* result<string, failure>, and with bytes for text */
typedef struct {
    u8 failed;
    union {
        text ok;
        failure error;
    };
} result;

static inline result success(text json) {
    return (result){.failed = 0, .ok = json};
}

static inline result fail(failure_kind kind, text code, text message) {
    return (result){.failed = 1, .error = {(u8)kind, {1, code}, message}};
}

/* the host */

typedef enum { GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS } method;
typedef enum { TRACE, DEBUG, INFO, WARN, ERROR } level;

typedef struct {
    text name;
    text value;
} header;

typedef struct {
    u8 failed;
    union {
        struct {
            u16 status;
            const header *headers;
            u32 header_count;
            text body;
        } ok;
        failure error;
    };
} response;

WASMRT_IMPORT("http", "fetch")
void wasmrt_fetch(u32 method, const u8 *url, u32 url_len, const header *headers, u32 header_count, u32 has_body,
                  const u8 *body, u32 body_len, u32 has_timeout, u32 timeout_ms, response *out);
WASMRT_IMPORT("workspace", "read") void wasmrt_read(const u8 *path, u32 len, result *out);
WASMRT_IMPORT("secrets", "exists") u32 wasmrt_secret(const u8 *name, u32 len);
WASMRT_IMPORT("tools", "invoke")
void wasmrt_invoke(const u8 *alias, u32 alias_len, const u8 *params, u32 params_len, result *out);
WASMRT_IMPORT("log", "log") void wasmrt_log(u32 level, const u8 *message, u32 len);
WASMRT_IMPORT("clock", "now") u64 wasmrt_now(void);
WASMRT_IMPORT("progress", "report")
void wasmrt_progress(u64 done, u32 has_total, u64 total, u32 has_message, const u8 *message, u32 len);

static inline response fetch(method verb, text url, const header *headers, u32 header_count, const text *body) {
    response out;
    wasmrt_fetch(verb, url.at, url.len, headers, header_count, body != 0, body ? body->at : 0, body ? body->len : 0,
                 0, 0, &out);
    return out;
}

static inline result read_file(text path) {
    result out;
    wasmrt_read(path.at, path.len, &out);
    return out;
}

/* `params` and the answer are JSON. */
static inline result invoke(text alias, text params) {
    result out;
    wasmrt_invoke(alias.at, alias.len, params.at, params.len, &out);
    return out;
}

static inline int secret_exists(text name) {
    return wasmrt_secret(name.at, name.len) != 0;
}

/* Unix milliseconds. */
static inline u64 now(void) {
    return wasmrt_now();
}

static inline void say(level how, text message) {
    wasmrt_log(how, message.at, message.len);
}

static inline void progress(u64 done, u64 total, text message) {
    wasmrt_progress(done, 1, total, message.len != 0, message.at, message.len);
}

/* Ends the call with a message: C cannot unwind to return a failure. */
static inline _Noreturn void panic(text message) {
    say(ERROR, message);
    __builtin_trap();
}

/* memory */

extern u8 __heap_base;
static u32 wasmrt_heap;

/* Returns 0 if the host's memory limit refuses it. */
static inline void *try_allocate(u32 align, u32 size) {
    if (!wasmrt_heap) wasmrt_heap = (u32)&__heap_base;
    u64 at = (wasmrt_heap + align - 1) & ~(u64)(align - 1), end = at + size;
    u64 have = (u64)__builtin_wasm_memory_size(0) << 16;
    if (end > have && (int)__builtin_wasm_memory_grow(0, (u32)((end - have + 0xffff) >> 16)) < 0) return 0;
    wasmrt_heap = (u32)end;
    return (void *)(u32)at;
}

static inline _Noreturn void out_of_memory(u32 size) {
    static u8 words[64] = "out of memory: ";
    u32 at = 15, unit = 1;
    while (size / unit > 9) unit *= 10;
    for (; unit; unit /= 10) words[at++] = '0' + size / unit % 10;
    for (const char *rest = " bytes more were refused"; *rest; rest++) words[at++] = (u8)*rest;
    panic((text){words, at});
}

static inline void *allocate(u32 align, u32 size) {
    void *made = try_allocate(align, size);
    if (!made) out_of_memory(size);
    return made;
}

/* The host allocates memory with this. It must not call the host: that would be a trap. */
__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *old, u32 old_size, u32 align, u32 size) {
    u8 *made = try_allocate(align, size);
    if (!made) __builtin_trap();
    for (u32 i = 0; i < old_size && i < size; i++) made[i] = ((u8 *)old)[i];
    return made;
}

/* string builder */

typedef struct {
    u8 *at;
    u32 len, room;
} builder;

static inline void put_byte(builder *out, u8 byte) {
    if (out->len == out->room) {
        u32 room = out->room ? out->room * 2 : 64;
        u8 *made = allocate(1, room);
        for (u32 i = 0; i < out->len; i++) made[i] = out->at[i];
        out->at = made;
        out->room = room;
    }
    out->at[out->len++] = byte;
}

static inline void put(builder *out, text value) {
    for (u32 i = 0; i < value.len; i++) put_byte(out, value.at[i]);
}

static inline void put_number(builder *out, u64 value) {
    if (value > 9) put_number(out, value / 10);
    put_byte(out, '0' + value % 10);
}

/* A JSON string, quotes included. */
static inline void put_string(builder *out, text value) {
    put_byte(out, '"');
    for (u32 i = 0; i < value.len; i++) {
        u8 byte = value.at[i];
        if (byte < 0x20) {
            put(out, TEXT("\\u00"));
            put_byte(out, "0123456789abcdef"[byte >> 4]);
            put_byte(out, "0123456789abcdef"[byte & 15]);
            continue;
        }
        if (byte == '"' || byte == '\\') put_byte(out, '\\');
        put_byte(out, byte);
    }
    put_byte(out, '"');
}

static inline text built(const builder *from) {
    return (text){from->at, from->len};
}

static inline int same(text a, text b) {
    if (a.len != b.len) return 0;
    for (u32 i = 0; i < a.len; i++)
        if (a.at[i] != b.at[i]) return 0;
    return 1;
}

/* JSON, read in place: for the host's params and for responses of modest size. */

static inline u32 json_space(text json, u32 at) {
    while (at < json.len && (json.at[at] == ' ' || json.at[at] == '\n' || json.at[at] == '\t' || json.at[at] == '\r')) at++;
    return at;
}

/* Returns the end of the value that starts at `at`. Counts brackets and skips strings. */
static inline u32 json_end(text json, u32 at) {
    u32 depth = 0;
    while (at < json.len) {
        u8 byte = json.at[at];
        if (byte == '"') {
            for (at++; at < json.len && json.at[at] != '"'; at++)
                if (json.at[at] == '\\') at++;
        } else if (byte == '{' || byte == '[') {
            depth++;
        } else if (byte == '}' || byte == ']') {
            if (!depth) return at;
            depth--;
        } else if (byte == ',' && !depth) {
            return at;
        }
        at++;
        if (!depth && (byte == '"' || byte == '}' || byte == ']')) return at < json.len ? at : json.len;
    }
    return json.len;
}

/* Returns the raw value of an object's member, or an empty text. Keys are compared without escapes. */
static inline text json_member(text object, text key) {
    u32 at = json_space(object, 0);
    if (at >= object.len || object.at[at] != '{') return (text){0, 0};
    for (at = json_space(object, at + 1); at < object.len && object.at[at] == '"'; at = json_space(object, at + 1)) {
        u32 end = json_end(object, at);
        text name = {object.at + at + 1, end - at - 2};
        at = json_space(object, end);
        if (at >= object.len || object.at[at] != ':') break;
        at = json_space(object, at + 1);
        end = json_end(object, at);
        if (same(name, key)) {
            while (end > at && object.at[end - 1] <= ' ') end--;
            return (text){object.at + at, end - at};
        }
        at = json_space(object, end);
        if (at >= object.len || object.at[at] != ',') break;
    }
    return (text){0, 0};
}

static inline u32 json_hex(text value, u32 at) {
    u32 code = 0;
    for (u32 i = at; i < at + 4 && i < value.len; i++) {
        u8 byte = value.at[i] | 0x20;
        code = code << 4 | (u32)(byte >= 'a' ? byte - 'a' + 10 : byte - '0') % 16;
    }
    return code;
}

static inline void json_put_code(builder *out, u32 code) {
    if (code < 0x80) {
        put_byte(out, (u8)code);
        return;
    }
    if (code < 0x800) put_byte(out, 0xc0 | (u8)(code >> 6));
    else {
        if (code < 0x10000) put_byte(out, 0xe0 | (u8)(code >> 12));
        else {
            put_byte(out, 0xf0 | (u8)(code >> 18));
            put_byte(out, 0x80 | ((code >> 12) & 63));
        }
        put_byte(out, 0x80 | ((code >> 6) & 63));
    }
    put_byte(out, 0x80 | (code & 63));
}

/* Reads a member that is a string, without its escapes. Returns 0 if it is absent or not a string. */
static inline int json_string(text object, text key, text *out) {
    text raw = json_member(object, key);
    if (raw.len < 2 || raw.at[0] != '"') return 0;
    builder plain = {0, 0, 0};
    for (u32 i = 1; i < raw.len - 1; i++) {
        u8 byte = raw.at[i];
        if (byte != '\\') {
            put_byte(&plain, byte);
            continue;
        }
        byte = raw.at[++i];
        if (byte == 'u') {
            u32 code = json_hex(raw, i + 1);
            i += 4;
            if (code >> 10 == 0x36 && i + 6 < raw.len && raw.at[i + 1] == '\\') { /* a surrogate pair */
                code = 0x10000 + ((code & 0x3ff) << 10) + (json_hex(raw, i + 3) & 0x3ff);
                i += 6;
            }
            json_put_code(&plain, code);
        } else {
            put_byte(&plain, byte == 'n' ? '\n' : byte == 't' ? '\t' : byte == 'r' ? '\r' : byte == 'b' ? 8 : byte == 'f' ? 12
                                                                                                             : byte);
        }
    }
    *out = built(&plain);
    return 1;
}

/* the component's exports */

typedef struct {
    text name;
    text description;
    text schema;
    u8 read_only, destructive, network;
} tool;

typedef struct {
    const tool *at;
    u32 len;
} tools;

/* PROVIDE(run, ...): the one tool of this component; `...` initialises its `tool`. */
#define PROVIDE(run, ...)                                                                                          \
    static const tool wasmrt_tool = __VA_ARGS__;                                                                   \
    static const tools wasmrt_tools = {&wasmrt_tool, 1};                                                           \
    WASMRT_EXPORT("describe") const tools *wasmrt_describe(void) { return &wasmrt_tools; }                         \
    WASMRT_EXPORT("call")                                                                                          \
    const result *wasmrt_call(const u8 *name, u32 name_len, const u8 *params, u32 params_len, u32 has_context,     \
                              const u8 *context, u32 context_len) {                                                \
        static result answer;                                                                                      \
        (void)name, (void)name_len;                                                                                \
        text about = has_context ? (text){context, context_len} : TEXT("null");                                    \
        answer = run((text){params, params_len}, about);                                                           \
        return &answer;                                                                                            \
    }                                                                                                              \
    _Static_assert(sizeof(tool) == 28 && sizeof(result) == 28 && sizeof(response) == 28, "the ABI's layout")

#endif
