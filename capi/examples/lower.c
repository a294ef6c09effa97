/* Finds out what to do with a module on a device, and writes the words to give to the driver.
 *
 *     cc lower.c $(pkg-config --cflags --libs coopmat) -o lower
 *     ./lower module.spv mesa-lavapipe-debian12 lowered.spv 0=64 1=64
 *
 * An engine has the words in memory, and makes its device by coopmat_device_from_vulkan.
 */
#include <coopmat.h>

#include <stdio.h>
#include <stdlib.h>

/* Reads a file of words; null if that fails. */
static uint32_t *read_words(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    uint32_t *words = NULL;
    long size;

    if (!file)
        return NULL;
    if (!fseek(file, 0, SEEK_END) && (size = ftell(file)) > 0 && !fseek(file, 0, SEEK_SET)) {
        *count = (size_t)size / sizeof *words;
        words = malloc((size_t)size);
        if (words && fread(words, sizeof *words, *count, file) != *count) {
            free(words);
            words = NULL;
        }
    }
    fclose(file);
    return words;
}

static int fail(CoopmatError *error)
{
    fprintf(stderr, "lower: %s\n", coopmat_error_message(error));
    coopmat_error_free(error);
    return 2;
}

static int write_outcome(const CoopmatOutcome *outcome, const char *path)
{
    char text[4096];
    CoopmatRequirements needs;
    uint32_t *words;
    size_t count;
    FILE *file;
    int done;

    switch (coopmat_outcome_kind(outcome)) {
    case COOPMAT_KIND_NATIVE:
        printf("native\n");
        return 0;
    case COOPMAT_KIND_REFUSED:
        coopmat_outcome_text(outcome, COOPMAT_TEXT_MESSAGE, text, sizeof text, NULL, NULL);
        printf("refused: %s\n", text);
        return 3;
    case COOPMAT_KIND_LOWERED:
        break;
    }
    coopmat_outcome_requirements(outcome, &needs, NULL);
    printf("lowered: subgroups of %u, full: %u, %u bytes of shared memory\n", needs.subgroup_size, needs.full_subgroups,
           needs.shared_memory);
    coopmat_outcome_words(outcome, NULL, 0, &count, NULL);
    words = malloc(count * sizeof *words);
    if (!words)
        return 2;
    coopmat_outcome_words(outcome, words, count, NULL, NULL);
    file = fopen(path, "wb");
    done = file && fwrite(words, sizeof *words, count, file) == count;
    if (file)
        done = !fclose(file) && done;
    free(words);
    return done ? 0 : 2;
}

int main(int argc, char **argv)
{
    CoopmatDevice *device = NULL;
    CoopmatModule *module = NULL;
    CoopmatOutcome *outcome = NULL;
    CoopmatError *error = NULL;
    CoopmatPipelineOptions options;
    CoopmatMapEntry entries[16];
    uint32_t data[16], *words;
    size_t count;
    int status, i;

    if (argc < 4 || argc > 20) {
        fprintf(stderr, "usage: lower MODULE.spv DEVICE OUTPUT.spv [SPECID=VALUE]...\n");
        return 2;
    }
    if (coopmat_abi_version() != COOPMAT_ABI_VERSION) {
        fprintf(stderr, "lower: libcoopmat has ABI %u, this needs %d\n", coopmat_abi_version(), COOPMAT_ABI_VERSION);
        return 2;
    }
    coopmat_pipeline_options_init(&options);
    for (i = 4; i < argc; i++) {
        CoopmatMapEntry *entry = &entries[options.map_entry_count];
        char *end;
        entry->constant_id = (uint32_t)strtoul(argv[i], &end, 0);
        entry->offset = (uint32_t)(options.map_entry_count * sizeof *data);
        entry->size = sizeof *data;
        data[options.map_entry_count++] = *end == '=' ? (uint32_t)strtoul(end + 1, NULL, 0) : 0;
    }
    options.map_entries = entries;
    options.data = data;
    options.data_size = options.map_entry_count * sizeof *data;

    words = read_words(argv[1], &count);
    if (!words) {
        perror(argv[1]);
        return 2;
    }
    if (coopmat_module_read(words, count, &module, &error) || coopmat_device_builtin(argv[2], &device, &error) ||
        coopmat_module_for_pipeline(module, device, &options, &outcome, &error))
        status = fail(error);
    else
        status = write_outcome(outcome, argv[3]);
    coopmat_outcome_free(outcome);
    coopmat_module_free(module);
    coopmat_device_free(device);
    free(words);
    return status;
}
