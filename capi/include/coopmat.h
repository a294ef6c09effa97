/* The C ABI of coopmat: what to do with a SPIR-V module with cooperative matrices on a device.
 *
 * Made by cbindgen of capi/src (scripts/capi.sh header): change it there.
 *
 * Every function but those that free may be called from any number of threads at once, with the same handles. What a function
 * gives out is freed once, by the function of its type. Functions that give lists take a buffer of the caller's: `count`,
 * unless null, is set to how much there is; a buffer that is null asks for that alone, and one that is too small is left as
 * it is (COOPMAT_STATUS_BUFFER_TOO_SMALL). `error`, unless null, is set to null or to an error that says what went wrong.
 * No function keeps a pointer of the caller's, none throws, and none ends the process because of its input.
 */

#ifndef COOPMAT_H
#define COOPMAT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/**
 * The version of this ABI. It grows by one where a program that was compiled with an older header would break.
 */
#define COOPMAT_ABI_VERSION 1

/**
 * Lower the module although the device runs it as it is.
 */
#define COOPMAT_ALWAYS_LOWER 1

/**
 * Elements outside of tensors whose layout leaves them undefined read as zero, and are not written.
 */
#define COOPMAT_UNDEFINED_AS_ZERO 2

/**
 * The pointers of tensor loads and stores are multiples of 16 bytes, as SPV_NV_cooperative_matrix2 demands: they are not tested.
 */
#define COOPMAT_ASSUME_ALIGNED 4

/**
 * The module works with subgroups of any size that the device has, whatever size its constants seem to be for.
 */
#define COOPMAT_ASSUME_ANY_SUBGROUP_SIZE 8

/**
 * Arithmetic with f16, on a device that has none, keeps the precision of f32 until its results are stored.
 */
#define COOPMAT_EXCESS_PRECISION 16

/**
 * The status that a function returns.
 */
typedef enum CoopmatStatus {
  /**
   * Success.
   */
  COOPMAT_STATUS_OK = 0,
  /**
   * A pointer is null or not aligned, a number is not one of the named ones, or a text is not UTF-8.
   */
  COOPMAT_STATUS_INVALID_ARGUMENT = 1,
  /**
   * The words are not a SPIR-V module.
   */
  COOPMAT_STATUS_BAD_MODULE = 2,
  /**
   * The text is not a device profile.
   */
  COOPMAT_STATUS_BAD_PROFILE = 3,
  /**
   * No built-in device has that name.
   */
  COOPMAT_STATUS_NO_SUCH_DEVICE = 4,
  /**
   * The values of specialization constants can't be read.
   */
  COOPMAT_STATUS_BAD_SPECIALIZATION = 5,
  /**
   * A call of Vulkan failed.
   */
  COOPMAT_STATUS_VULKAN = 6,
  /**
   * The buffer is too small; the count is the required size.
   */
  COOPMAT_STATUS_BUFFER_TOO_SMALL = 7,
  /**
   * The outcome is of a kind that does not have the requested value.
   */
  COOPMAT_STATUS_WRONG_KIND = 8,
  /**
   * A bug of the library.
   */
  COOPMAT_STATUS_INTERNAL = 9,
} CoopmatStatus;

/**
 * The kind of an outcome.
 */
typedef enum CoopmatKind {
  /**
   * Give the driver the module as it is.
   */
  COOPMAT_KIND_NATIVE = 0,
  /**
   * Give the driver the words of the outcome.
   */
  COOPMAT_KIND_LOWERED = 1,
  /**
   * There are no equivalent words: COOPMAT_TEXT_MESSAGE is the reason.
   */
  COOPMAT_KIND_REFUSED = 2,
} CoopmatKind;

/**
 * A device. It never changes, so any number of threads may use it. To be freed by `coopmat_device_free`.
 */
typedef struct CoopmatDevice CoopmatDevice;

/**
 * The reason why a function failed, in words. To be freed by `coopmat_error_free`.
 */
typedef struct CoopmatError CoopmatError;

/**
 * A module that was read once. It never changes, so any number of threads may use it. To be freed by `coopmat_module_free`.
 */
typedef struct CoopmatModule CoopmatModule;

/**
 * The outcome for a pipeline. It never changes, so any number of threads may use it. To be freed by
 * `coopmat_outcome_free`.
 */
typedef struct CoopmatOutcome CoopmatOutcome;

/**
 * A function of Vulkan, of any signature.
 */
typedef void (*CoopmatVoidFunction)(void);

/**
 * `vkGetInstanceProcAddr`: instance and name.
 */
typedef CoopmatVoidFunction (*CoopmatGetInstanceProcAddr)(void *instance, const char *name);

/**
 * A size of matrices, with the values of Vulkan: a `VkCooperativeMatrixPropertiesKHR`, or, with `workgroup_invocations`, a
 * `VkCooperativeMatrixFlexibleDimensionsPropertiesNV`.
 */
typedef struct CoopmatMatrixProperties {
  /**
   * Rows of A and of the result, or what they are a multiple of.
   */
  uint32_t m;
  /**
   * Columns of B and of the result, or what they are a multiple of.
   */
  uint32_t n;
  /**
   * Columns of A and rows of B, or what they are a multiple of.
   */
  uint32_t k;
  /**
   * The components of A, a `VkComponentTypeKHR`.
   */
  uint32_t a;
  /**
   * The components of B.
   */
  uint32_t b;
  /**
   * The components of C.
   */
  uint32_t c;
  /**
   * The components of the result.
   */
  uint32_t result;
  /**
   * 1 if the addition saturates: a `VkBool32`.
   */
  uint32_t saturating;
  /**
   * The scope, a `VkScopeKHR`.
   */
  uint32_t scope;
  /**
   * The workgroup's invocations with workgroup scope, else 0.
   */
  uint32_t workgroup_invocations;
} CoopmatMatrixProperties;

/**
 * The limits that a device may report besides the lists of sizes: those of
 * `VkPhysicalDeviceCooperativeMatrix2PropertiesNV`.
 */
typedef struct CoopmatPromisedLimits {
  /**
   * `cooperativeMatrixWorkgroupScopeMaxWorkgroupSize`.
   */
  uint32_t max_workgroup_size;
  /**
   * `cooperativeMatrixFlexibleDimensionsMaxDimension`.
   */
  uint32_t max_dimension;
  /**
   * `cooperativeMatrixWorkgroupScopeReservedSharedMemory`.
   */
  uint32_t reserved_shared_memory;
} CoopmatPromisedLimits;

/**
 * Where the value of a specialization constant is: a `VkSpecializationMapEntry`.
 */
typedef struct CoopmatMapEntry {
  /**
   * The SpecId.
   */
  uint32_t constant_id;
  /**
   * The first byte.
   */
  uint32_t offset;
  /**
   * How many bytes.
   */
  size_t size;
} CoopmatMapEntry;

/**
 * The matrices that lowered words may contain: one of COOPMAT_TARGET_*.
 */
typedef uint32_t CoopmatTarget;

/**
 * The lane number of an invocation: one of COOPMAT_LANES_*.
 */
typedef uint32_t CoopmatLanes;

/**
 * The options of a pipeline. `coopmat_pipeline_options_init` fills in the defaults.
 */
typedef struct CoopmatPipelineOptions {
  /**
   * The size of this structure where the program was compiled.
   */
  size_t struct_size;
  /**
   * The entry point; null is all of them.
   */
  const char *entry_point;
  /**
   * The entries of the `VkSpecializationInfo`.
   */
  const struct CoopmatMapEntry *map_entries;
  /**
   * How many there are.
   */
  size_t map_entry_count;
  /**
   * Its data.
   */
  const void *data;
  /**
   * The bytes of its data.
   */
  size_t data_size;
  /**
   * The subgroup size that the pipeline requires; 0 if it requires none.
   */
  uint32_t required_subgroup_size;
  /**
   * The matrices that lowered words may contain.
   */
  CoopmatTarget target;
  /**
   * The lane number of an invocation.
   */
  CoopmatLanes lanes;
  /**
   * COOPMAT_ALWAYS_LOWER, COOPMAT_UNDEFINED_AS_ZERO, COOPMAT_ASSUME_*, COOPMAT_EXCESS_PRECISION, any of them, or 0.
   */
  uint32_t flags;
} CoopmatPipelineOptions;

/**
 * The requirements of a pipeline of lowered words.
 */
typedef struct CoopmatRequirements {
  /**
   * The subgroup size to require (`VkPipelineShaderStageRequiredSubgroupSizeCreateInfo`); 0 if none, and the driver may choose.
   */
  uint32_t subgroup_size;
  /**
   * 1 if the pipeline must require full subgroups (`VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT`),
   * else 0.
   */
  uint32_t full_subgroups;
  /**
   * Bytes of shared memory that the words have besides the module's own.
   */
  uint32_t shared_memory;
  /**
   * The target of the words: COOPMAT_TARGET_KHR or COOPMAT_TARGET_SCALAR.
   */
  uint32_t target;
} CoopmatRequirements;

/**
 * A text of an outcome: one of COOPMAT_TEXT_*. Texts that an outcome does not have are empty; several are one a line.
 */
typedef uint32_t CoopmatText;

/**
 * The best that the device and the module allow.
 */
#define COOPMAT_TARGET_AUTO 0

/**
 * The device's own matrices of VK_KHR_cooperative_matrix.
 */
#define COOPMAT_TARGET_KHR 1

/**
 * No matrices at all.
 */
#define COOPMAT_TARGET_SCALAR 2

/**
 * COOPMAT_LANES_SUBGROUP if the device can require subgroup sizes and full subgroups, else COOPMAT_LANES_LOCAL_INDEX.
 */
#define COOPMAT_LANES_AUTO 0

/**
 * Its index in a subgroup of the device: the pipeline must then require what CoopmatRequirements lists.
 */
#define COOPMAT_LANES_SUBGROUP 1

/**
 * Its place in the workgroup: so many consecutive invocations stand for a subgroup as `required_subgroup_size` says.
 */
#define COOPMAT_LANES_LOCAL_INDEX 2

/**
 * The reason for a refusal.
 */
#define COOPMAT_TEXT_MESSAGE 0

/**
 * The rule by which it was refused: "refused-unknown-dimension".
 */
#define COOPMAT_TEXT_RULE 1

/**
 * The remedy for a refusal.
 */
#define COOPMAT_TEXT_REMEDY 2

/**
 * The requirements that the device lacks, or the rules that the module breaks.
 */
#define COOPMAT_TEXT_FINDINGS 3

/**
 * The reasons why the module can't be used as it is.
 */
#define COOPMAT_TEXT_BECAUSE 4

/**
 * The assumptions.
 */
#define COOPMAT_TEXT_WARNINGS 5

/**
 * The preferred targets that were not used, each with the reason.
 */
#define COOPMAT_TEXT_NOT_TAKEN 6

/**
 * The deviations from bit-exact results.
 */
#define COOPMAT_TEXT_APPROXIMATIONS 7

/**
 * The device extensions that lowered words need.
 */
#define COOPMAT_TEXT_EXTENSIONS 8

/**
 * The features that lowered words need, by their names in Vulkan's structures.
 */
#define COOPMAT_TEXT_FEATURES 9

/**
 * The capabilities that lowered words declare and the module does not.
 */
#define COOPMAT_TEXT_CAPABILITIES 10

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the version of the ABI that the library has: compare it with COOPMAT_ABI_VERSION, which the program was compiled with.
 */
uint32_t coopmat_abi_version(void);

/**
 * Returns the version of the library, and of the sources that it was built of: two builds of which one lowers a module
 * differently have different ones. The text is the library's own.
 */
const char *coopmat_build(void);

/**
 * Makes a device that comes with the library, by name: "nvidia-h100".
 *
 * # Safety
 *
 * `name` is a text; `device` and `error` are null or can be written.
 */
enum CoopmatStatus coopmat_device_builtin(const char *name, struct CoopmatDevice **device, struct CoopmatError **error);

/**
 * Reads a device from a profile as `cooprun profile` writes it: `length` bytes of JSON.
 *
 * # Safety
 *
 * `json` has `length` bytes; `device` and `error` are null or can be written.
 */
enum CoopmatStatus coopmat_device_from_json(const char *json,
                                            size_t length,
                                            struct CoopmatDevice **device,
                                            struct CoopmatError **error);

/**
 * Makes a device from a physical device.
 *
 * `create_info` is the `VkDeviceCreateInfo` that the `VkDevice` is made with: a shader may use no more than that enables. If it is
 * null, all that the physical device has counts as enabled. `api_version` is the one of `VkApplicationInfo`; 0 is 1.0, as there.
 *
 * # Safety
 *
 * `get_instance_proc_addr` is null or Vulkan's; `instance` is alive, and `physical_device` one of its devices; `create_info` is null
 * or valid as Vulkan defines it; `device` and `error` are null or can be written.
 */
enum CoopmatStatus coopmat_device_from_vulkan(CoopmatGetInstanceProcAddr get_instance_proc_addr,
                                              void *instance,
                                              void *physical_device,
                                              const void *create_info,
                                              uint32_t api_version,
                                              struct CoopmatDevice **device,
                                              struct CoopmatError **error);

/**
 * Returns the profile of the device, as the JSON that `coopmat_device_from_json` reads; `count` includes the
 * terminating zero.
 *
 * # Safety
 *
 * `device` is null or alive; `buffer` is null or has room for `capacity` bytes; `count` and `error` are null or can be written.
 */
enum CoopmatStatus coopmat_device_json(const struct CoopmatDevice *device,
                                       char *buffer,
                                       size_t capacity,
                                       size_t *count,
                                       struct CoopmatError **error);

/**
 * Frees a device; null is nothing. Outcomes of it stay.
 *
 * # Safety
 *
 * `device` is null or alive, and nobody uses it any more.
 */
void coopmat_device_free(struct CoopmatDevice *device);

/**
 * Returns the list of VK_KHR_cooperative_matrix that applications may be told: the device's own sizes, then others
 * that are lowered.
 *
 * # Safety
 *
 * `device` is null or alive; `buffer` is null or has room for `capacity` rows; `count` and `error` are null or can be written.
 */
enum CoopmatStatus coopmat_device_promised_khr(const struct CoopmatDevice *device,
                                               struct CoopmatMatrixProperties *buffer,
                                               size_t capacity,
                                               size_t *count,
                                               struct CoopmatError **error);

/**
 * Returns the list of VK_NV_cooperative_matrix2 that applications may be told: sizes may be multiples of these.
 *
 * # Safety
 *
 * `device` is null or alive; `buffer` is null or has room for `capacity` rows; `count` and `error` are null or can be written.
 */
enum CoopmatStatus coopmat_device_promised_flexible(const struct CoopmatDevice *device,
                                                    struct CoopmatMatrixProperties *buffer,
                                                    size_t capacity,
                                                    size_t *count,
                                                    struct CoopmatError **error);

/**
 * Returns the limits that applications may be told.
 *
 * # Safety
 *
 * `device` is null or alive; `limits` and `error` are null or can be written.
 */
enum CoopmatStatus coopmat_device_promised_limits(const struct CoopmatDevice *device,
                                                  struct CoopmatPromisedLimits *limits,
                                                  struct CoopmatError **error);

/**
 * Returns the message of an error: lower case, no final period, valid until the error is freed. Empty for null.
 *
 * # Safety
 *
 * `error` is null or an error that is not freed.
 */
const char *coopmat_error_message(const struct CoopmatError *error);

/**
 * Frees an error; null is nothing.
 *
 * # Safety
 *
 * `error` is null or an error that is not freed, and nobody uses it any more.
 */
void coopmat_error_free(struct CoopmatError *error);

/**
 * Fills in the default options.
 *
 * # Safety
 *
 * `options` is null or can be written.
 */
void coopmat_pipeline_options_init(struct CoopmatPipelineOptions *options);

/**
 * Reads a module from its words, in the byte order of the machine or the other one. The words are not needed afterwards.
 *
 * # Safety
 *
 * `words` has `word_count` words; `module` and `error` are null or can be written.
 */
enum CoopmatStatus coopmat_module_read(const uint32_t *words,
                                       size_t word_count,
                                       struct CoopmatModule **module,
                                       struct CoopmatError **error);

/**
 * Returns true if the module has anything that is ever lowered: if not, each of its pipelines is native. False for
 * null.
 *
 * # Safety
 *
 * `module` is null or alive.
 */
bool coopmat_module_has_matrices(const struct CoopmatModule *module);

/**
 * Frees a module; null is nothing. Outcomes of it stay.
 *
 * # Safety
 *
 * `module` is null or alive, and nobody uses it any more.
 */
void coopmat_module_free(struct CoopmatModule *module);

/**
 * Computes the outcome for a pipeline on a device. A module that can't be lowered is an outcome, not an error.
 * `options` may be null.
 *
 * # Safety
 *
 * `module` and `device` are null or alive; `options` is null or says what it points to; `outcome` and `error` are null or can be
 * written.
 */
enum CoopmatStatus coopmat_module_for_pipeline(const struct CoopmatModule *module,
                                               const struct CoopmatDevice *device,
                                               const struct CoopmatPipelineOptions *options,
                                               struct CoopmatOutcome **outcome,
                                               struct CoopmatError **error);

/**
 * Returns the key of a pipeline for caches: the same 32 bytes if the library's build, the module, the device and the
 * options are the same.
 *
 * # Safety
 *
 * As for `coopmat_module_for_pipeline`; `key` is null or has room for 32 bytes.
 */
enum CoopmatStatus coopmat_module_pipeline_key(const struct CoopmatModule *module,
                                               const struct CoopmatDevice *device,
                                               const struct CoopmatPipelineOptions *options,
                                               uint8_t *key,
                                               struct CoopmatError **error);

/**
 * Returns the kind of an outcome. COOPMAT_KIND_REFUSED for null.
 *
 * # Safety
 *
 * `outcome` is null or alive.
 */
enum CoopmatKind coopmat_outcome_kind(const struct CoopmatOutcome *outcome);

/**
 * Returns the words of a lowered module.
 *
 * # Safety
 *
 * `outcome` is null or alive; `buffer` is null or has room for `capacity` words; `count` and `error` are null or can be written.
 */
enum CoopmatStatus coopmat_outcome_words(const struct CoopmatOutcome *outcome,
                                         uint32_t *buffer,
                                         size_t capacity,
                                         size_t *count,
                                         struct CoopmatError **error);

/**
 * Returns the requirements of the pipeline of lowered words.
 *
 * # Safety
 *
 * `outcome` is null or alive; `requirements` and `error` are null or can be written.
 */
enum CoopmatStatus coopmat_outcome_requirements(const struct CoopmatOutcome *outcome,
                                                struct CoopmatRequirements *requirements,
                                                struct CoopmatError **error);

/**
 * Gives the values of specialization constants that lowered words still have. To give the pipeline all of the module's does no
 * harm.
 *
 * # Safety
 *
 * `outcome` is null or alive; `entries` is null or has room for `entry_capacity` entries, `data` for `data_capacity` bytes; the
 * others are null or can be written.
 */
enum CoopmatStatus coopmat_outcome_specialization(const struct CoopmatOutcome *outcome,
                                                  struct CoopmatMapEntry *entries,
                                                  size_t entry_capacity,
                                                  size_t *entry_count,
                                                  void *data,
                                                  size_t data_capacity,
                                                  size_t *data_size,
                                                  struct CoopmatError **error);

/**
 * Returns a text of an outcome; `count` includes the terminating zero.
 *
 * # Safety
 *
 * `outcome` is null or alive; `buffer` is null or has room for `capacity` bytes; `count` and `error` are null or can be written.
 */
enum CoopmatStatus coopmat_outcome_text(const struct CoopmatOutcome *outcome,
                                        CoopmatText what,
                                        char *buffer,
                                        size_t capacity,
                                        size_t *count,
                                        struct CoopmatError **error);

/**
 * Frees an outcome; null is nothing.
 *
 * # Safety
 *
 * `outcome` is null or alive, and nobody uses it any more.
 */
void coopmat_outcome_free(struct CoopmatOutcome *outcome);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* COOPMAT_H */
