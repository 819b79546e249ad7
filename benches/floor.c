/* The floor: the least that a fresh-store call of one exported function costs in C on the same engine library.

   Declarations follow the C API of wasmtime 50, as far as they are used here; the wheel ships no headers.
   usage: floor COMPONENT CALLS pooling|warm-pooling|on-demand INTERFACE TOOL PARAMS
   prints one line a call: nanoseconds. CALLS may be -: then each line of stdin is a number of calls to make, and an
   empty line ends their times, so that a bench can take turns with it. PARAMS may be @FILE.
   The world is wasmrt:tool@0.1.0, called through `call`, or near:agent up to 0.3.0, called through `execute`.
   warm-pooling keeps touched memory resident, as wasmrt's own pool does. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { size_t size; char *data; } vec_t;
typedef struct val val_t;
typedef struct entry entry_t;
typedef struct { size_t size; entry_t *data; } record_t;
struct val { uint8_t kind; union { vec_t string; record_t record; val_t *option; struct { bool is_ok; val_t *val; } result; uint64_t raw[3]; } of; };
struct entry { vec_t name; val_t val; };
enum { STRING = 12, RECORD = 14, OPTION = 18, RESULT = 19 };
typedef struct { uint64_t store_id; uint32_t a; } instance_t;
typedef struct { struct { uint64_t store_id; uint32_t a; } head; uint32_t b; void *c; } func_t;

extern void *wasm_config_new(void);
extern void wasmtime_config_consume_fuel_set(void *, bool);
extern void wasmtime_config_epoch_interruption_set(void *, bool);
extern void wasmtime_config_wasm_component_model_set(void *, bool);
extern void wasmtime_config_wasm_tail_call_set(void *, bool);
extern void wasmtime_config_wasm_multi_memory_set(void *, bool);
extern void *wasmtime_pooling_allocation_config_new(void);
extern void wasmtime_pooling_allocation_config_total_memories_set(void *, uint32_t);
extern void wasmtime_pooling_allocation_config_total_tables_set(void *, uint32_t);
extern void wasmtime_pooling_allocation_config_max_memory_size_set(void *, size_t);
extern void wasmtime_pooling_allocation_config_max_core_instances_per_component_set(void *, uint32_t);
extern void wasmtime_pooling_allocation_config_max_component_instance_size_set(void *, size_t);
extern void wasmtime_pooling_allocation_config_max_core_instance_size_set(void *, size_t);
extern void wasmtime_pooling_allocation_config_linear_memory_keep_resident_set(void *, size_t);
extern void wasmtime_pooling_allocation_config_table_keep_resident_set(void *, size_t);
extern void wasmtime_pooling_allocation_config_max_unused_warm_slots_set(void *, uint32_t);
extern void wasmtime_pooling_allocation_strategy_set(void *, void *);
extern void *wasm_engine_new_with_config(void *);
extern void *wasmtime_component_new(void *, const void *, size_t, void **);
extern void *wasmtime_component_get_export_index(void *, void *, const char *, size_t);
extern void *wasmtime_component_linker_new(void *);
extern void *wasmtime_component_linker_define_unknown_imports_as_traps(void *, void *);
extern void *wasmtime_component_linker_instantiate(void *, void *, void *, instance_t *);
extern void *wasmtime_store_new(void *, void *, void *);
extern void *wasmtime_store_context(void *);
extern void wasmtime_store_limiter(void *, int64_t, int64_t, int64_t, int64_t, int64_t);
extern void *wasmtime_context_set_fuel(void *, uint64_t);
extern void wasmtime_context_set_epoch_deadline(void *, uint64_t);
extern void wasmtime_store_delete(void *);
extern bool wasmtime_component_instance_get_func(instance_t *, void *, void *, func_t *);
extern void *wasmtime_component_func_call(func_t *, void *, val_t *, size_t, val_t *, size_t);
extern void *wasmtime_component_func_post_return(func_t *, void *);
extern void wasmtime_component_val_delete(val_t *);
extern void wasmtime_error_message(void *, vec_t *);

static void check(void *error, const char *what) {
    if (!error) return;
    vec_t message = {0};
    wasmtime_error_message(error, &message);
    fprintf(stderr, "%s: %.*s\n", what, (int)message.size, message.data);
    exit(1);
}

static char *slurp(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) { perror(path); exit(1); }
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *data = malloc(*size + 1);
    if (fread(data, 1, *size, file) != *size) exit(1);
    fclose(file);
    return data;
}

static val_t text(char *value) {
    val_t v = {0};
    v.kind = STRING;
    v.of.string.size = strlen(value);
    v.of.string.data = value;
    return v;
}

static void *new_engine(const char *allocator) {
    void *config = wasm_config_new();
    wasmtime_config_consume_fuel_set(config, true);
    wasmtime_config_epoch_interruption_set(config, true);
    wasmtime_config_wasm_component_model_set(config, true);
    wasmtime_config_wasm_tail_call_set(config, true);
    wasmtime_config_wasm_multi_memory_set(config, true);
    if (strcmp(allocator, "on-demand")) {
        void *pool = wasmtime_pooling_allocation_config_new();
        wasmtime_pooling_allocation_config_total_memories_set(pool, 256);
        wasmtime_pooling_allocation_config_total_tables_set(pool, 256);
        wasmtime_pooling_allocation_config_max_memory_size_set(pool, 128 << 20);
        wasmtime_pooling_allocation_config_max_core_instances_per_component_set(pool, 64);
        wasmtime_pooling_allocation_config_max_component_instance_size_set(pool, 8 << 20);
        wasmtime_pooling_allocation_config_max_core_instance_size_set(pool, 4 << 20);
        if (!strcmp(allocator, "warm-pooling")) {
            wasmtime_pooling_allocation_config_max_unused_warm_slots_set(pool, 64);
            wasmtime_pooling_allocation_config_linear_memory_keep_resident_set(pool, 512 << 10);
            wasmtime_pooling_allocation_config_table_keep_resident_set(pool, 64 << 10);
        }
        wasmtime_pooling_allocation_strategy_set(config, pool);
    }
    return wasm_engine_new_with_config(config);
}

typedef struct { void *engine, *component, *index, *linker; char *tool, *params; bool provider; } target_t;

/* The parameters are the caller's: the engine copies them. */
static void invoke(target_t *of, func_t *func, void *context) {
    val_t none = {0}, result = {0};
    none.kind = OPTION;
    bool answered;
    if (of->provider) {
        val_t args[3] = {text(of->tool), text(of->params), none};
        check(wasmtime_component_func_call(func, context, args, 3, &result, 1), "call");
        answered = result.kind == RESULT && result.of.result.is_ok;
    } else {
        entry_t fields[2] = {{{6, "params"}, text(of->params)}, {{7, "context"}, none}};
        val_t request = {0};
        request.kind = RECORD;
        request.of.record.size = 2;
        request.of.record.data = fields;
        check(wasmtime_component_func_call(func, context, &request, 1, &result, 1), "call");
        answered = result.kind == RECORD && result.of.record.size == 2 && result.of.record.data[0].val.of.option;
    }
    if (!answered) { fprintf(stderr, "the tool failed\n"); exit(1); }
    wasmtime_component_val_delete(&result);
    check(wasmtime_component_func_post_return(func, context), "post-return");
}

static uint64_t once(target_t *of) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    void *store = wasmtime_store_new(of->engine, 0, 0);
    void *context = wasmtime_store_context(store);
    wasmtime_store_limiter(store, 64 << 20, 20000, 64, 16, 8);
    check(wasmtime_context_set_fuel(context, 500000000), "fuel");
    wasmtime_context_set_epoch_deadline(context, 1000);
    instance_t instance;
    check(wasmtime_component_linker_instantiate(of->linker, context, of->component, &instance), "instantiate");
    func_t func;
    wasmtime_component_instance_get_func(&instance, context, of->index, &func);
    invoke(of, &func, context);
    wasmtime_store_delete(store);
    clock_gettime(CLOCK_MONOTONIC, &b);
    return (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000u + (uint64_t)(b.tv_nsec - a.tv_nsec);
}

/* Times are kept until all calls are made: printing is not part of them. */
static void run(target_t *of, size_t count) {
    uint64_t *times = malloc(count * sizeof *times);
    for (size_t i = 0; i < count; i++) times[i] = once(of);
    for (size_t i = 0; i < count; i++) printf("%lu\n", (unsigned long)times[i]);
    free(times);
}

int main(int argc, char **argv) {
    if (argc != 7) { fprintf(stderr, "usage: floor COMPONENT CALLS ALLOCATOR INTERFACE TOOL PARAMS\n"); return 2; }
    target_t of = {0};
    size_t size;
    of.tool = argv[5];
    of.params = argv[6];
    if (*of.params == '@') of.params = slurp(argv[6] + 1, &size), of.params[size] = 0;
    of.provider = strncmp(argv[4], "near:agent", 10) != 0;
    of.engine = new_engine(argv[3]);
    char *bytes = slurp(argv[1], &size);
    check(wasmtime_component_new(of.engine, bytes, size, &of.component), "component");
    void *interface = wasmtime_component_get_export_index(of.component, 0, argv[4], strlen(argv[4]));
    const char *function = of.provider ? "call" : "execute";
    of.index = wasmtime_component_get_export_index(of.component, interface, function, strlen(function));
    if (!of.index) { fprintf(stderr, "no export\n"); return 1; }
    of.linker = wasmtime_component_linker_new(of.engine);
    check(wasmtime_component_linker_define_unknown_imports_as_traps(of.linker, of.component), "linker");
    if (strcmp(argv[2], "-")) {
        run(&of, strtoul(argv[2], 0, 10));
        return 0;
    }
    char line[32];
    while (fgets(line, sizeof line, stdin)) {
        run(&of, strtoul(line, 0, 10));
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
