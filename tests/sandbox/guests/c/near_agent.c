/* The same guest as rust/near-agent, against the canonical ABI by hand: no C library, no WASI.
 * AT is the version with its @, or empty. Strings in params must not hold escapes. */

#ifndef AT
#define AT "@0.3.0"
#endif
#define HOST(name) __attribute__((import_module("near:agent/host" AT), import_name(name)))
#define TOOL(name) __attribute__((export_name("near:agent/tool" AT "#" name)))

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

typedef struct {
    u8 *at;
    u32 len;
} text;

/* option<string>, and result<string, string> */
typedef struct {
    u8 tag;
    text value;
} tagged;

typedef struct {
    u8 failed;
    union {
        struct {
            u16 status;
            text headers;
            text body;
        } ok;
        text error;
    };
} http_answer;

typedef struct {
    tagged output;
    tagged error;
} response;

HOST("log") void host_log(u32 level, const void *at, u32 len);
HOST("now-millis") u64 host_now(void);
HOST("workspace-read") void host_read(const void *at, u32 len, tagged *out);
HOST("secret-exists") u32 host_secret(const void *at, u32 len);
HOST("tool-invoke") void host_invoke(const void *alias, u32 alias_len, const void *params, u32 params_len, tagged *out);
HOST("http-request")
void host_http(const void *method, u32 method_len, const void *url, u32 url_len, const void *headers, u32 headers_len,
               u32 has_body, const void *body, u32 body_len, u32 has_timeout, u32 timeout, http_answer *out);

/* memory: grown, never given back; a store lives for one call */

extern u8 __heap_base;
static u32 heap;

__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *old, u32 old_size, u32 align, u32 size) {
    if (!heap) heap = (u32)&__heap_base;
    heap = (heap + align - 1) & ~(align - 1);
    u32 at = heap;
    u64 end = (u64)at + size;
    u32 pages = __builtin_wasm_memory_size(0);
    if (end > (u64)pages << 16) {
        u32 more = (u32)((end - ((u64)pages << 16) + 0xffff) >> 16);
        if (__builtin_wasm_memory_grow(0, more) == (__SIZE_TYPE__)-1) __builtin_trap();
    }
    heap = (u32)end;
    for (u32 i = 0; i < old_size && i < size; i++) ((u8 *)at)[i] = ((u8 *)old)[i];
    return (void *)at;
}

/* text */

static text out;
static u32 room;

static void put(u8 byte) {
    if (out.len == room) {
        u32 more = room ? room * 2 : 256;
        out.at = cabi_realloc(out.at, out.len, 1, more);
        room = more;
    }
    out.at[out.len++] = byte;
}

static void puts_(const char *word) {
    while (*word) put((u8)*word++);
}

static void put_text(text value) {
    for (u32 i = 0; i < value.len; i++) put(value.at[i]);
}

static void put_number(u64 value) {
    u8 digits[20];
    int count = 0;
    do digits[count++] = '0' + value % 10;
    while (value /= 10);
    while (count) put(digits[--count]);
}

static void put_string(text value) {
    put('"');
    for (u32 i = 0; i < value.len; i++) {
        u8 byte = value.at[i];
        if (byte < 0x20) {
            puts_("\\u00");
            put("0123456789abcdef"[byte >> 4]);
            put("0123456789abcdef"[byte & 15]);
            continue;
        }
        if (byte == '"' || byte == '\\') put('\\');
        put(byte);
    }
    put('"');
}

static int same(text value, const char *word) {
    u32 i = 0;
    while (i < value.len && word[i] && value.at[i] == (u8)word[i]) i++;
    return i == value.len && !word[i];
}

/* The string value after "key":, empty where there is none. */
static text field(text json, const char *key) {
    for (u32 i = 0; i < json.len; i++) {
        if (json.at[i] != '"') continue;
        u32 j = i + 1, k = 0;
        while (j < json.len && key[k] && json.at[j] == (u8)key[k]) j++, k++;
        if (key[k] || j >= json.len || json.at[j++] != '"') continue;
        while (j < json.len && (json.at[j] == ' ' || json.at[j] == ':')) j++;
        if (j >= json.len || json.at[j++] != '"') continue;
        u32 start = j;
        while (j < json.len && json.at[j] != '"') j++;
        return (text){json.at + start, j - start};
    }
    return (text){0, 0};
}

/* answers */

static response answer;

static response *done(void) {
    answer.output = (tagged){1, out};
    return &answer;
}

static response *failed(text why) {
    answer.error = (tagged){1, why};
    return &answer;
}

static response *http(text url) {
    http_answer got;
    static const char headers[] = "{\"accept\": \"*/*\"}";
    host_http("GET", 3, url.at, url.len, headers, sizeof headers - 1, 0, 0, 0, 1, 5000, &got);
    if (got.failed) return failed(got.error);
    puts_("{\"status\": ");
    put_number(got.ok.status);
    puts_(", \"headers\": ");
    put_text(got.ok.headers);
    puts_(", \"body\": ");
    put_string(got.ok.body);
    put('}');
    return done();
}

static response *workspace(text path) {
    tagged got;
    host_read(path.at, path.len, &got);
    puts_("{\"text\": ");
    if (got.tag) put_string(got.value);
    else puts_("null");
    put('}');
    return done();
}

static response *invoke(text alias) {
    tagged got;
    host_invoke(alias.at, alias.len, "{}", 2, &got);
    if (got.tag) return failed(got.value);
    put_text(got.value);
    return done();
}

static u32 recurse(volatile u32 depth) {
    volatile u8 frame[512];
    frame[depth % 512] = (u8)depth;
    return depth ? recurse(depth + 1) + frame[0] : 0;
}

static response *misbehave(text op, text arg) {
    if (same(op, "trap")) __builtin_trap();
    if (same(op, "spin"))
        for (volatile int i = 0;; i++) {}
    if (same(op, "grow"))
        for (;;) *(volatile u8 *)cabi_realloc(0, 0, 1, 1 << 20) = 1;
    if (same(op, "recurse")) put_number(recurse(1));
    else if (same(op, "invalid")) puts_("this is not JSON");
    else if (same(op, "big")) {
        u32 count = 0;
        for (u32 i = 0; i < arg.len; i++) count = count * 10 + arg.at[i] - '0';
        out.at = cabi_realloc(0, 0, 1, count + 2);
        for (room = count + 2; out.len < count + 2;) put('x');
        out.at[0] = out.at[count + 1] = '"';
    } else return failed((text){(u8 *)"no such operation", 17});
    return done();
}

static u32 calls;

TOOL("execute") response *execute(u8 *params, u32 params_len, u32 has_context, u8 *context, u32 context_len) {
    text all = {params, params_len}, op = field(all, "op"), arg = field(all, "arg");
    if (!op.len || same(op, "echo")) put_text(all);
    else if (same(op, "context")) put_text(has_context ? (text){context, context_len} : (text){(u8 *)"null", 4});
    else if (same(op, "now")) puts_("{\"now\": "), put_number(host_now()), put('}');
    else if (same(op, "workspace")) return workspace(arg);
    else if (same(op, "http")) return http(arg);
    else if (same(op, "invoke")) return invoke(arg);
    else if (same(op, "secret")) puts_(host_secret(arg.at, arg.len) ? "true" : "false");
    else if (same(op, "log")) {
        for (u32 level = 0; level < 5; level++) host_log(level, arg.at, arg.len);
        puts_("null");
    } else if (same(op, "fail")) return failed(arg);
    else if (same(op, "count")) put_number(++calls);
    else return misbehave(op, arg);
    return done();
}

static text constant;

TOOL("schema") text *schema(void) {
    static const char json[] = "{\"type\": \"object\", \"properties\": {\"op\": {\"type\": \"string\"}, "
                               "\"arg\": {\"type\": \"string\"}}}";
    constant = (text){(u8 *)json, sizeof json - 1};
    return &constant;
}

TOOL("description") text *description(void) {
    static const char words[] = "Does on request what a test wants to see.";
    constant = (text){(u8 *)words, sizeof words - 1};
    return &constant;
}
