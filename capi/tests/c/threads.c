/* Eight threads with the same handles: all get the same words. Argument: a module. */
#include <coopmat.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, ROUNDS = 8 };

static uint32_t words[1 << 16];
static const CoopmatModule *module;
static const CoopmatDevice *device;

struct result {
    uint32_t *words;
    size_t count;
    int failed;
};

/* Lowers for subgroups of 32 and 16 in turn; keeps the words of the first round and compares the others with them. */
static void *work(void *argument)
{
    struct result *result = argument;
    int round;

    for (round = 0; round < ROUNDS; round++) {
        CoopmatPipelineOptions options;
        CoopmatOutcome *outcome = NULL;
        uint32_t *now;
        size_t count = 0;
        coopmat_pipeline_options_init(&options);
        options.target = COOPMAT_TARGET_SCALAR;
        options.lanes = COOPMAT_LANES_LOCAL_INDEX;
        options.flags = COOPMAT_ALWAYS_LOWER;
        options.required_subgroup_size = round % 2 ? 16 : 32;
        if (coopmat_module_for_pipeline(module, device, &options, &outcome, NULL) ||
            coopmat_outcome_words(outcome, NULL, 0, &count, NULL) || !(now = malloc(count * sizeof *now))) {
            coopmat_outcome_free(outcome);
            result->failed = 1;
            return NULL;
        }
        coopmat_outcome_words(outcome, now, count, NULL, NULL);
        coopmat_outcome_free(outcome);
        if (round % 2) {
            free(now);
        } else if (!result->words) {
            result->words = now;
            result->count = count;
        } else {
            result->failed |= count != result->count || memcmp(now, result->words, count * sizeof *now);
            free(now);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    size_t count = file ? fread(words, sizeof *words, sizeof words / sizeof *words, file) : 0;
    struct result results[THREADS];
    pthread_t threads[THREADS];
    CoopmatModule *read = NULL;
    CoopmatDevice *made = NULL;
    int failed = 0, i;

    if (file)
        fclose(file);
    if (coopmat_module_read(words, count, &read, NULL) || coopmat_device_builtin("amd-rdna3", &made, NULL))
        return 1;
    module = read;
    device = made;
    memset(results, 0, sizeof results);
    for (i = 0; i < THREADS; i++)
        failed |= pthread_create(&threads[i], NULL, work, &results[i]);
    for (i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        failed |= results[i].failed || !results[i].words || results[i].count != results[0].count ||
                  memcmp(results[i].words, results[0].words, results[0].count * sizeof *words);
    }
    for (i = 0; i < THREADS; i++)
        free(results[i].words);
    coopmat_module_free(read);
    coopmat_device_free(made);
    printf(failed ? "FAILED\n" : "done\n");
    return failed;
}
