/* The floor: the least that a fresh-store call of one exported function costs in C on the same engine library.

   Declarations follow the C API of wasmtime 50, as far as they are used here; the wheel ships no headers.
   usage: floor COMPONENT.cwasm CALLS pooling|on-demand PROVIDER-INTERFACE TOOL PARAMS
   prints one line a call: nanoseconds. The component's world is wasmrt:tool@0.1.0, called through `call`. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct { size_t size; char *data; } vec_t;
typedef struct val val_t;
struct val { uint8_t kind; union { vec_t string; val_t *option; struct { bool is_ok; val_t *val; } result; uint64_t raw[3]; } of; };
typedef struct { uint64_t store_id; uint32_t a; } instance_t;
typedef struct { struct { uint64_t store_id; uint32_t a; } head; uint32_t b; void *c; } func_t;

extern void *wasm_config_new(void);
extern void wasmtime_config_consume_fuel_set(void *, bool);
extern void wasmtime_config_epoch_interruption_set(void *, bool);
extern void wasmtime_config_wasm_component_model_set(void *, bool);
extern void *wasmtime_pooling_allocation_config_new(void);
extern void wasmtime_pooling_allocation_config_total_memories_set(void *, uint32_t);
extern void wasmtime_pooling_allocation_config_total_tables_set(void *, uint32_t);
extern void wasmtime_pooling_allocation_config_max_memory_size_set(void *, size_t);
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
    v.kind = 12;
    v.of.string.size = strlen(value);
    v.of.string.data = value;
    return v;
}

int main(int argc, char **argv) {
    if (argc != 7) { fprintf(stderr, "usage: floor COMPONENT CALLS ALLOCATOR INTERFACE TOOL PARAMS\n"); return 2; }
    size_t size, count = strtoul(argv[2], 0, 10);
    char *bytes = slurp(argv[1], &size);
    void *config = wasm_config_new();
    wasmtime_config_consume_fuel_set(config, true);
    wasmtime_config_epoch_interruption_set(config, true);
    wasmtime_config_wasm_component_model_set(config, true);
    if (!strcmp(argv[3], "pooling")) {
        void *pool = wasmtime_pooling_allocation_config_new();
        wasmtime_pooling_allocation_config_total_memories_set(pool, 256);
        wasmtime_pooling_allocation_config_total_tables_set(pool, 256);
        wasmtime_pooling_allocation_config_max_memory_size_set(pool, 128 << 20);
        wasmtime_pooling_allocation_strategy_set(config, pool);
    }
    void *engine = wasm_engine_new_with_config(config);
    void *component = 0;
    check(wasmtime_component_new(engine, bytes, size, &component), "component");
    void *interface = wasmtime_component_get_export_index(component, 0, argv[4], strlen(argv[4]));
    void *index = wasmtime_component_get_export_index(component, interface, "call", 4);
    if (!index) { fprintf(stderr, "no export\n"); return 1; }
    void *linker = wasmtime_component_linker_new(engine);
    check(wasmtime_component_linker_define_unknown_imports_as_traps(linker, component), "linker");

    val_t none = {0};
    none.kind = 18;
    uint64_t *times = malloc(count * sizeof *times);
    for (size_t i = 0; i < count; i++) {
        struct timespec a, b;
        clock_gettime(CLOCK_MONOTONIC, &a);
        void *store = wasmtime_store_new(engine, 0, 0);
        void *context = wasmtime_store_context(store);
        wasmtime_store_limiter(store, 64 << 20, 20000, 64, 16, 1);
        check(wasmtime_context_set_fuel(context, 500000000), "fuel");
        wasmtime_context_set_epoch_deadline(context, 1000);
        instance_t instance;
        check(wasmtime_component_linker_instantiate(linker, context, component, &instance), "instantiate");
        func_t func;
        wasmtime_component_instance_get_func(&instance, context, index, &func);
        val_t args[3] = {text(argv[5]), text(argv[6]), none};
        val_t result = {0};
        check(wasmtime_component_func_call(&func, context, args, 3, &result, 1), "call");
        if (result.kind != 19 || !result.of.result.is_ok) { fprintf(stderr, "the tool failed\n"); return 1; }
        wasmtime_component_val_delete(&result);
        check(wasmtime_component_func_post_return(&func, context), "post-return");
        wasmtime_store_delete(store);
        clock_gettime(CLOCK_MONOTONIC, &b);
        times[i] = (uint64_t)(b.tv_sec - a.tv_sec) * 1000000000u + (uint64_t)(b.tv_nsec - a.tv_nsec);
    }
    for (size_t i = 0; i < count; i++) printf("%lu\n", (unsigned long)times[i]);
    return 0;
}
