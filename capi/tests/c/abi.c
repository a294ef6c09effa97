/* What the ABI promises, asked from C: null pointers, bad input, buffers, statuses. Arguments: a module, and a folder for files. */
#include <coopmat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed;

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "abi.c:%d: %s\n", __LINE__, #condition);                                                   \
            failed = 1;                                                                                                \
        }                                                                                                              \
    } while (0)

static uint32_t words[1 << 16];

static size_t read_words(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t count = file ? fread(words, sizeof *words, sizeof words / sizeof *words, file) : 0;
    if (file)
        fclose(file);
    return count;
}

/* Whether a status comes with a message that has a part, and frees the error. */
static int says(CoopmatStatus got, CoopmatStatus wanted, CoopmatError **error, const char *part)
{
    int right = got == wanted && *error && strstr(coopmat_error_message(*error), part);
    if (!right)
        fprintf(stderr, "status %d, '%s'\n", got, coopmat_error_message(*error));
    coopmat_error_free(*error);
    *error = NULL;
    return right;
}

static void nulls(void)
{
    CoopmatError *error = NULL;
    CoopmatDevice *device = NULL;
    CoopmatModule *module = NULL;
    CoopmatOutcome *outcome = NULL;
    CoopmatRequirements needs;
    CoopmatPromisedLimits limits;
    uint8_t key[32];
    size_t count = 7;

    CHECK(says(coopmat_device_builtin(NULL, &device, &error), COOPMAT_STATUS_INVALID_ARGUMENT, &error, "name is null"));
    CHECK(says(coopmat_device_builtin("nvidia-h100", NULL, &error), COOPMAT_STATUS_INVALID_ARGUMENT, &error, "device is null"));
    CHECK(coopmat_device_builtin(NULL, NULL, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_device_from_json(NULL, 10, &device, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_device_from_json(NULL, 0, &device, NULL) == COOPMAT_STATUS_BAD_PROFILE);
    CHECK(coopmat_device_from_vulkan(NULL, NULL, NULL, NULL, 0, &device, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_device_json(NULL, NULL, 0, &count, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT && count == 7);
    CHECK(coopmat_device_promised_khr(NULL, NULL, 0, &count, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_device_promised_flexible(NULL, NULL, 0, &count, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_device_promised_limits(NULL, &limits, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_module_read(NULL, 10, &module, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_module_read(words, 0, &module, NULL) == COOPMAT_STATUS_BAD_MODULE);
    CHECK(coopmat_module_read((const uint32_t *)((const char *)words + 1), 5, &module, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_module_read(words, (size_t)-1, &module, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_module_for_pipeline(NULL, NULL, NULL, &outcome, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_module_pipeline_key(NULL, NULL, NULL, key, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_outcome_words(NULL, NULL, 0, &count, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_outcome_requirements(NULL, &needs, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_outcome_text(NULL, COOPMAT_TEXT_RULE, NULL, 0, &count, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_outcome_kind(NULL) == COOPMAT_KIND_REFUSED);
    CHECK(!coopmat_module_has_matrices(NULL));
    CHECK(!strcmp(coopmat_error_message(NULL), ""));
    coopmat_pipeline_options_init(NULL);
    coopmat_outcome_free(NULL);
    coopmat_module_free(NULL);
    coopmat_device_free(NULL);
    coopmat_error_free(NULL);
    CHECK(!device && !module && !outcome && count == 7);
}

static void bad_input(size_t count)
{
    CoopmatError *error = NULL;
    CoopmatDevice *device = NULL;
    CoopmatModule *module = NULL;
    static const uint32_t garbage[6] = {1, 2, 3, 4, 5, 6};

    CHECK(says(coopmat_device_builtin("abacus", &device, &error), COOPMAT_STATUS_NO_SUCH_DEVICE, &error, "nvidia-h100"));
    CHECK(says(coopmat_device_from_json("{\"x\"", 4, &device, &error), COOPMAT_STATUS_BAD_PROFILE, &error, "not a device profile"));
    CHECK(says(coopmat_device_from_json("\xff", 1, &device, &error), COOPMAT_STATUS_INVALID_ARGUMENT, &error, "UTF-8"));
    CHECK(says(coopmat_module_read(garbage, 6, &module, &error), COOPMAT_STATUS_BAD_MODULE, &error, "magic"));
    CHECK(says(coopmat_module_read(words, count - 1, &module, &error), COOPMAT_STATUS_BAD_MODULE, &error, "inside a function"));
    CHECK(!device && !module);
}

static void options(const CoopmatModule *module, const CoopmatDevice *device)
{
    CoopmatError *error = NULL;
    CoopmatOutcome *outcome = NULL;
    CoopmatPipelineOptions options;
    CoopmatMapEntry entry = {0, 0, 4};
    uint32_t value = 16, flag;
    uint8_t plain[32], key[32];

    memset(&options, 0, sizeof options);
    CHECK(says(coopmat_module_for_pipeline(module, device, &options, &outcome, &error), COOPMAT_STATUS_INVALID_ARGUMENT, &error, "struct_size"));
    coopmat_pipeline_options_init(&options);
    options.target = 9;
    CHECK(says(coopmat_module_for_pipeline(module, device, &options, &outcome, &error), COOPMAT_STATUS_INVALID_ARGUMENT, &error, "target is 9"));
    coopmat_pipeline_options_init(&options);
    options.lanes = 9;
    CHECK(says(coopmat_module_for_pipeline(module, device, &options, &outcome, &error), COOPMAT_STATUS_INVALID_ARGUMENT, &error, "lanes is 9"));
    coopmat_pipeline_options_init(&options);
    options.flags = 0x20;
    CHECK(says(coopmat_module_for_pipeline(module, device, &options, &outcome, &error), COOPMAT_STATUS_INVALID_ARGUMENT, &error, "flags is 0x20"));
    options.flags = 0;
    CHECK(coopmat_module_pipeline_key(module, device, &options, plain, &error) == COOPMAT_STATUS_OK);
    for (flag = COOPMAT_ALWAYS_LOWER; flag <= COOPMAT_EXCESS_PRECISION; flag *= 2) {
        options.flags = flag;
        CHECK(coopmat_module_pipeline_key(module, device, &options, key, &error) == COOPMAT_STATUS_OK);
        CHECK(memcmp(plain, key, sizeof key));
    }
    CHECK(flag == 0x20);
    coopmat_pipeline_options_init(&options);
    options.map_entries = &entry;
    options.map_entry_count = 1;
    CHECK(says(coopmat_module_for_pipeline(module, device, &options, &outcome, &error), COOPMAT_STATUS_BAD_SPECIALIZATION, &error, "0 bytes of data"));
    options.data = &value;
    options.data_size = sizeof value;
    entry.size = 3;
    CHECK(says(coopmat_module_for_pipeline(module, device, &options, &outcome, &error), COOPMAT_STATUS_BAD_SPECIALIZATION, &error, "3 bytes"));
    CHECK(!outcome);
    entry.size = 4;
    options.entry_point = "main";
    CHECK(coopmat_module_for_pipeline(module, device, &options, &outcome, &error) == COOPMAT_STATUS_OK && !error);
    CHECK(outcome);
    coopmat_outcome_free(outcome);
    outcome = NULL;
    options.entry_point = "nobody";
    CHECK(coopmat_module_for_pipeline(module, device, &options, &outcome, &error) == COOPMAT_STATUS_OK);
    CHECK(coopmat_outcome_kind(outcome) == COOPMAT_KIND_REFUSED);
    coopmat_outcome_free(outcome);
}

static void outcomes(const CoopmatModule *module, const CoopmatDevice *device)
{
    CoopmatError *error = NULL;
    CoopmatOutcome *outcome = NULL;
    CoopmatModule *again = NULL;
    CoopmatDevice *other = NULL;
    CoopmatRequirements needs;
    CoopmatPipelineOptions options;
    uint8_t key[32], same[32];
    uint32_t *lowered, one = 0xabcdef01;
    char text[64];
    size_t count = 0, small;

    CHECK(coopmat_module_has_matrices(module));
    CHECK(coopmat_module_for_pipeline(module, device, NULL, &outcome, &error) == COOPMAT_STATUS_OK && !error);
    CHECK(coopmat_outcome_kind(outcome) == COOPMAT_KIND_LOWERED);
    CHECK(coopmat_outcome_requirements(outcome, &needs, &error) == COOPMAT_STATUS_OK);
    CHECK(needs.subgroup_size == 8 && needs.full_subgroups == 1 && needs.target == COOPMAT_TARGET_SCALAR);
    CHECK(coopmat_outcome_words(outcome, NULL, 0, &count, &error) == COOPMAT_STATUS_OK && count > 100);
    CHECK(says(coopmat_outcome_words(outcome, &one, 1, &small, &error), COOPMAT_STATUS_BUFFER_TOO_SMALL, &error, "1 elements"));
    CHECK(small == count && one == 0xabcdef01);
    CHECK(coopmat_outcome_words(outcome, NULL, 0, NULL, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    lowered = malloc(count * sizeof *lowered);
    CHECK(lowered && coopmat_outcome_words(outcome, lowered, count, NULL, NULL) == COOPMAT_STATUS_OK);
    CHECK(coopmat_module_read(lowered, count, &again, &error) == COOPMAT_STATUS_OK);
    CHECK(!coopmat_module_has_matrices(again));
    free(lowered);
    coopmat_module_free(again);
    CHECK(coopmat_outcome_text(outcome, COOPMAT_TEXT_BECAUSE, text, sizeof text, &count, NULL) == COOPMAT_STATUS_BUFFER_TOO_SMALL);
    CHECK(coopmat_outcome_text(outcome, COOPMAT_TEXT_MESSAGE, text, sizeof text, &count, NULL) == COOPMAT_STATUS_OK);
    CHECK(count == 1 && !text[0]);
    CHECK(coopmat_outcome_text(outcome, 99, text, sizeof text, &count, NULL) == COOPMAT_STATUS_INVALID_ARGUMENT);
    CHECK(coopmat_outcome_specialization(outcome, NULL, 0, &count, NULL, 0, &small, &error) == COOPMAT_STATUS_OK);
    CHECK(count == 0 && small == 0);
    coopmat_outcome_free(outcome);

    CHECK(coopmat_device_builtin("nvidia-h100", &other, &error) == COOPMAT_STATUS_OK);
    CHECK(coopmat_module_for_pipeline(module, other, NULL, &outcome, &error) == COOPMAT_STATUS_OK);
    CHECK(coopmat_outcome_kind(outcome) == COOPMAT_KIND_NATIVE);
    CHECK(says(coopmat_outcome_words(outcome, NULL, 0, &count, &error), COOPMAT_STATUS_WRONG_KIND, &error, "native"));
    coopmat_outcome_free(outcome);

    coopmat_pipeline_options_init(&options);
    CHECK(coopmat_module_pipeline_key(module, device, &options, key, NULL) == COOPMAT_STATUS_OK);
    CHECK(coopmat_module_pipeline_key(module, device, NULL, same, NULL) == COOPMAT_STATUS_OK && !memcmp(key, same, 32));
    CHECK(coopmat_module_pipeline_key(module, other, NULL, same, NULL) == COOPMAT_STATUS_OK && memcmp(key, same, 32));
    coopmat_device_free(other);
}

static void devices(const CoopmatDevice *device)
{
    CoopmatMatrixProperties rows[64];
    CoopmatPromisedLimits limits;
    CoopmatDevice *again = NULL;
    size_t count = 0, i;
    char *json;

    CHECK(coopmat_device_json(device, NULL, 0, &count, NULL) == COOPMAT_STATUS_OK && count > 100);
    json = malloc(count);
    CHECK(json && coopmat_device_json(device, json, count, NULL, NULL) == COOPMAT_STATUS_OK && !json[count - 1]);
    CHECK(coopmat_device_from_json(json, count - 1, &again, NULL) == COOPMAT_STATUS_OK && again);
    coopmat_device_free(again);
    free(json);
    CHECK(coopmat_device_promised_khr(device, rows, 64, &count, NULL) == COOPMAT_STATUS_OK && count > 0 && count < 64);
    for (i = 0; i < count; i++)
        CHECK(rows[i].m && rows[i].n && rows[i].k && rows[i].scope == 3 && !rows[i].workgroup_invocations);
    CHECK(coopmat_device_promised_flexible(device, rows, 64, &count, NULL) == COOPMAT_STATUS_OK && count > 0);
    CHECK(coopmat_device_promised_limits(device, &limits, NULL) == COOPMAT_STATUS_OK && limits.max_dimension >= 64);
}

/* Words that are changed at random must end in some outcome or status. */
static void mutations(size_t count, const CoopmatDevice *device)
{
    static uint32_t changed[1 << 16];
    uint32_t seed = 1, outcomes[3] = {0, 0, 0};
    int round;

    for (round = 0; round < 60; round++) {
        CoopmatModule *module = NULL;
        CoopmatOutcome *outcome = NULL;
        CoopmatError *error = NULL;
        int changes;
        memcpy(changed, words, count * sizeof *words);
        for (changes = 0; changes < 3; changes++) {
            seed = seed * 1664525u + 1013904223u;
            changed[5 + (seed >> 8) % (count - 5)] ^= 1u << (seed >> 3 & 31);
        }
        if (coopmat_module_read(changed, count, &module, &error) == COOPMAT_STATUS_OK) {
            CHECK(coopmat_module_for_pipeline(module, device, NULL, &outcome, &error) == COOPMAT_STATUS_OK);
            outcomes[coopmat_outcome_kind(outcome)]++;
        }
        coopmat_error_free(error);
        coopmat_outcome_free(outcome);
        coopmat_module_free(module);
    }
    printf("mutants: %u native, %u lowered, %u refused\n", outcomes[0], outcomes[1], outcomes[2]);
    CHECK(outcomes[COOPMAT_KIND_LOWERED] && outcomes[COOPMAT_KIND_REFUSED]);
}

int main(int argc, char **argv)
{
    CoopmatDevice *device = NULL;
    CoopmatModule *module = NULL;
    size_t count = argc > 1 ? read_words(argv[1]) : 0;

    CHECK(coopmat_abi_version() == COOPMAT_ABI_VERSION);
    CHECK(strchr(coopmat_build(), '+'));
    CHECK(count > 0);
    nulls();
    bad_input(count);
    CHECK(coopmat_device_builtin("mesa-lavapipe-debian12", &device, NULL) == COOPMAT_STATUS_OK);
    CHECK(coopmat_module_read(words, count, &module, NULL) == COOPMAT_STATUS_OK);
    options(module, device);
    outcomes(module, device);
    devices(device);
    mutations(count, device);
    coopmat_module_free(module);
    coopmat_device_free(device);
    printf(failed ? "FAILED\n" : "done\n");
    return failed;
}
