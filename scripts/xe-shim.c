/* xe-shim.c: answers Intel's Vulkan driver in place of the kernel's driver `xe`, for a GPU that is not there.
 *
 *     cc -shared -fPIC -O2 xe-shim.c -o libxe_shim.so
 *     XE_SHIM_GPU=b580 LD_PRELOAD=./libxe_shim.so vulkaninfo
 *
 * drivers.sh builds it and starts programs with it. The driver finds one render node, believes in its GPU and compiles
 * pipelines for it. Memory is there and can be mapped; what is submitted is complete at once and is not executed.
 *
 * The interface is the one that Linux documents for user space: include/uapi/drm/xe_drm.h and drm.h (docs.kernel.org,
 * "drm/xe uAPI"). Structures below are as long as what is read or written of them, numbers have the documented names. What
 * libdrm looks up in /dev/dri and /sys/dev/char is answered too, by functions of the C library that stand before its own.
 *
 * Two things keep this small. The render node is a file in memory, so that its inode tells each of its descriptors, whoever
 * duplicates or closes them. A buffer is a range of the same file, so that mapping one is what the kernel does anyway.
 */
#define _GNU_SOURCE
/* Names with 64 at their end are functions of their own here. */
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define EXPORT __attribute__((visibility("default")))

/* ------------------------------------------------------------------------------------------------------------ the GPUs */

/* What differs between GPUs. Names, sizes and counts are those of Intel's data sheets and of the kernel's tables. */
struct gpu {
    const char *name;
    uint16_t device;
    /* Of PCI; from Xe2 on the driver goes by the revision of the IP instead. */
    uint8_t revision;
    uint16_t ip_major, ip_minor, ip_revision;
    uint64_t vram;
    /* Xe cores (dual subslices), one bit each, and execution units in each of them. */
    uint32_t cores;
    uint16_t units;
    /* The kind of these units in answers to DRM_XE_DEVICE_QUERY_GT_TOPOLOGY. */
    uint16_t units_type;
};

enum {
    TOPO_DSS_GEOMETRY = 1,
    TOPO_DSS_COMPUTE = 2,
    TOPO_EU_PER_DSS = 4,
    TOPO_SIMD16_EU_PER_DSS = 5,
};

#define GIB (1ull << 30)

static const struct gpu gpus[] = {
    /* Arc B580, Battlemage: 20 cores of 8 units. */
    { "b580", 0xe20b, 0, 20, 1, 4, 12 * GIB, 0xfffff, 0xff, TOPO_SIMD16_EU_PER_DSS },
    /* Arc A770, DG2: 32 cores of 16 units. */
    { "a770", 0x56a0, 8, 12, 55, 8, 16 * GIB, 0xffffffff, 0xffff, TOPO_EU_PER_DSS },
};

static const struct gpu *gpu;

/* ------------------------------------------------------------------------------------------- the C library's functions */

#define FUNCTIONS(X) \
    X(int, open, (const char *, int, ...)) \
    X(FILE *, fopen, (const char *, const char *)) \
    X(int, access, (const char *, int)) \
    X(int, stat, (const char *, struct stat *)) \
    X(int, fstat, (int, struct stat *)) \
    X(DIR *, opendir, (const char *)) \
    X(struct dirent *, readdir, (DIR *)) \
    X(int, closedir, (DIR *)) \
    X(ssize_t, readlink, (const char *, char *, size_t)) \
    X(char *, realpath, (const char *, char *)) \
    X(int, ioctl, (int, unsigned long, ...))

#define DECLARE(result, name, arguments) static result(*real_##name) arguments;
FUNCTIONS(DECLARE)

static void find(void *pointer, const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (!function) {
        fprintf(stderr, "xe-shim: the C library has no %s\n", name);
        abort();
    }
    memcpy(pointer, &function, sizeof function);
}

/* --------------------------------------------------------------------------------------------------- files of the node */

#define MAJOR 226
#define MINOR 128
#define DRI "/dev/dri"
#define NODE_NAME "renderD128"
#define NODE DRI "/" NODE_NAME
#define CHARACTER "/sys/dev/char/226:"
#define DEVICE CHARACTER "128/device"

/* The node, and the file that buffers are ranges of. */
static int node = -1;
static dev_t node_device;
static ino_t node_inode;

static char uevent[256], device_id[16], revision_id[16];

static const struct {
    const char *path, *text;
} files[] = {
    { DEVICE "/uevent", uevent },
    { DEVICE "/vendor", "0x8086\n" },
    { DEVICE "/device", device_id },
    { DEVICE "/subsystem_vendor", "0x8086\n" },
    { DEVICE "/subsystem_device", "0x0000\n" },
    { DEVICE "/revision", revision_id },
};

static pthread_once_t started = PTHREAD_ONCE_INIT;

static void begin(void)
{
    const char *name = getenv("XE_SHIM_GPU");
    struct stat status;

#define FIND(result, name, arguments) find(&real_##name, #name);
    FUNCTIONS(FIND)

    gpu = &gpus[0];
    for (size_t i = 0; name && i < COUNT(gpus); i++)
        if (!strcmp(gpus[i].name, name))
            gpu = &gpus[i];
    if (name && strcmp(gpu->name, name)) {
        fprintf(stderr, "xe-shim: there is no '%s'\n", name);
        abort();
    }
    snprintf(uevent, sizeof uevent, "DRIVER=xe\nPCI_CLASS=30000\nPCI_ID=8086:%04X\nPCI_SLOT_NAME=0000:03:00.0\n", gpu->device);
    snprintf(device_id, sizeof device_id, "0x%04x\n", gpu->device);
    snprintf(revision_id, sizeof revision_id, "0x%02x\n", gpu->revision);

    node = memfd_create("xe-shim", MFD_CLOEXEC);
    if (node < 0 || ftruncate(node, 1ll << 42) || real_fstat(node, &status)) {
        perror("xe-shim: memory");
        abort();
    }
    node_device = status.st_dev;
    node_inode = status.st_ino;
}

static void start(void)
{
    pthread_once(&started, begin);
}

static bool is_node(int fd)
{
    struct stat status;

    return fd >= 0 && !real_fstat(fd, &status) && status.st_ino == node_inode && status.st_dev == node_device;
}

/* True of other devices of the machine, which a driver must not find beside this one. */
static bool is_hidden(const char *path)
{
    if (!strcmp(path, DRI) || !strcmp(path, NODE))
        return false;
    if (!strncmp(path, DRI "/", sizeof DRI))
        return true;
    return !strncmp(path, CHARACTER, sizeof CHARACTER - 1) && strncmp(path, DEVICE, sizeof DEVICE - 1);
}

/* Opens a path that is answered here. -1 with errno for one that is hidden or absent, -2 for any other. */
static int open_ours(const char *path)
{
    if (!strcmp(path, NODE))
        return fcntl(node, F_DUPFD_CLOEXEC, 3);
    for (size_t i = 0; i < COUNT(files); i++) {
        if (!strcmp(path, files[i].path)) {
            size_t length = strlen(files[i].text);
            int fd = memfd_create("xe-shim file", MFD_CLOEXEC);

            if (fd >= 0 && (write(fd, files[i].text, length) != (ssize_t)length || lseek(fd, 0, SEEK_SET)))
                return -1;
            return fd;
        }
    }
    if (is_hidden(path) || !strncmp(path, DEVICE, sizeof DEVICE - 1)) {
        errno = ENOENT;
        return -1;
    }
    return -2;
}

/* Of the node: a device. Of other paths that are answered here: whether there is such a folder or file; -2 if it is not one. */
static int stat_ours(const char *path, struct stat *status)
{
    int fd;

    memset(status, 0, sizeof *status);
    if (!strcmp(path, NODE)) {
        status->st_mode = S_IFCHR | 0666;
        status->st_rdev = makedev(MAJOR, MINOR);
        return 0;
    }
    if (!strcmp(path, DRI) || !strcmp(path, DEVICE) || !strcmp(path, DEVICE "/drm")) {
        status->st_mode = S_IFDIR | 0755;
        return 0;
    }
    fd = open_ours(path);
    if (fd < 0)
        return fd;
    fd = real_fstat(fd, status) | close(fd);
    return fd;
}

EXPORT int open(const char *path, int flags, ...)
{
    va_list list;
    mode_t mode;
    int fd;

    va_start(list, flags);
    mode = va_arg(list, mode_t);
    va_end(list);
    start();
    fd = open_ours(path);
    return fd == -2 ? real_open(path, flags, mode) : fd;
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
    int fd;

    start();
    fd = open_ours(path);
    if (fd == -2)
        return real_fopen(path, mode);
    return fd < 0 ? NULL : fdopen(fd, "r");
}

EXPORT int access(const char *path, int mode)
{
    struct stat status;
    int done;

    start();
    done = stat_ours(path, &status);
    return done == -2 ? real_access(path, mode) : done;
}

EXPORT int stat(const char *path, struct stat *status)
{
    int done;

    start();
    done = stat_ours(path, status);
    return done == -2 ? real_stat(path, status) : done;
}

EXPORT int fstat(int fd, struct stat *status)
{
    start();
    return is_node(fd) ? stat_ours(NODE, status) : real_fstat(fd, status);
}

/* An open /dev/dri: how many of its names were read. */
static int folders[16];

static int *folder_of(DIR *folder)
{
    int *ours = (int *)folder;

    return ours >= folders && ours < folders + COUNT(folders) ? ours : NULL;
}

EXPORT DIR *opendir(const char *path)
{
    static unsigned next;
    int *ours;

    start();
    if (strcmp(path, DRI) && strcmp(path, DRI "/"))
        return real_opendir(path);
    ours = &folders[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) % COUNT(folders)];
    *ours = 0;
    return (DIR *)ours;
}

EXPORT struct dirent *readdir(DIR *folder)
{
    static struct dirent entry = { .d_ino = 1, .d_type = DT_CHR, .d_name = NODE_NAME };
    int *ours = folder_of(folder);

    start();
    if (!ours)
        return real_readdir(folder);
    return (*ours)++ ? NULL : &entry;
}

EXPORT int closedir(DIR *folder)
{
    start();
    return folder_of(folder) ? 0 : real_closedir(folder);
}

/* libdrm goes by where the link to the subsystem ends. */
EXPORT ssize_t readlink(const char *path, char *target, size_t size)
{
    static const char subsystem[] = "../../../bus/pci";
    size_t length = sizeof subsystem - 1;

    start();
    if (strcmp(path, DEVICE "/subsystem"))
        return real_readlink(path, target, size);
    if (length > size)
        length = size;
    memcpy(target, subsystem, length);
    return length;
}

/* The device's folder is no link here, so that all its files have one name. */
EXPORT char *realpath(const char *path, char *resolved)
{
    start();
    if (strcmp(path, DEVICE))
        return real_realpath(path, resolved);
    return resolved ? strcpy(resolved, path) : strdup(path);
}

EXPORT char *__realpath_chk(const char *path, char *resolved, size_t room)
{
    (void)room;
    return realpath(path, resolved);
}

/* On 64-bit Linux the structures are the same with and without 64 in the name. */
EXPORT int open64(const char *, int, ...) __attribute__((alias("open")));
EXPORT FILE *fopen64(const char *, const char *) __attribute__((alias("fopen")));

EXPORT struct dirent64 *readdir64(DIR *folder)
{
    return (struct dirent64 *)readdir(folder);
}

EXPORT int stat64(const char *path, struct stat64 *status)
{
    return stat(path, (struct stat *)status);
}

EXPORT int fstat64(int fd, struct stat64 *status)
{
    return fstat(fd, (struct stat *)status);
}

/* ------------------------------------------------------------------------------------------------------------- buffers */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The file's ranges by handle - 1. Ranges are not given out again: there are 4 TiB, and holes take no memory. */
static struct buffer {
    uint64_t offset, size;
} *buffers;
static uint32_t buffer_count, buffer_room;
static uint64_t file_end = 1 << 16;

static int grow(void *array, uint32_t count, uint32_t *room, size_t size)
{
    void *more, *old;
    uint32_t wanted = *room ? *room * 2 : 64;

    if (count < *room)
        return 0;
    memcpy(&old, array, sizeof old);
    more = realloc(old, wanted * size);
    if (!more)
        return -ENOMEM;
    memcpy(array, &more, sizeof more);
    *room = wanted;
    return 0;
}

struct gem_create {
    uint64_t extensions, size;
    uint32_t placement, flags, vm_id, handle;
};

static int gem_create(struct gem_create *it)
{
    uint64_t size = (it->size + 0xffff) & ~0xffffull;
    int error;

    if (!it->size || size < it->size)
        return -EINVAL;
    pthread_mutex_lock(&lock);
    error = file_end + size > 1ull << 42 ? -ENOMEM : grow(&buffers, buffer_count, &buffer_room, sizeof *buffers);
    if (!error) {
        buffers[buffer_count++] = (struct buffer){ file_end, size };
        file_end += size;
        it->handle = buffer_count;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

static int gem_close(uint32_t handle)
{
    int error = -EINVAL;

    pthread_mutex_lock(&lock);
    if (handle && handle <= buffer_count && buffers[handle - 1].size) {
        struct buffer *buffer = &buffers[handle - 1];

        fallocate(node, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, buffer->offset, buffer->size);
        buffer->size = 0;
        error = 0;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

struct mmap_offset {
    uint64_t extensions;
    uint32_t handle, flags;
    uint64_t offset;
};

static int gem_mmap_offset(struct mmap_offset *it)
{
    int error = -ENOENT;

    pthread_mutex_lock(&lock);
    if (it->handle && it->handle <= buffer_count && buffers[it->handle - 1].size) {
        it->offset = buffers[it->handle - 1].offset;
        error = 0;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* -------------------------------------------------------------------------------------------- synchronization objects */

/* The point that an object has reached, by handle - 1. A binary one is at 0 or 1. */
static struct syncobj {
    uint64_t point;
    bool used;
} *syncobjs;
static uint32_t syncobj_count, syncobj_room;
static pthread_cond_t reached;

static __attribute__((constructor)) void make_condition(void)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&reached, &attributes);
}

/* The lock is held where one of these is used. */
static struct syncobj *syncobj(uint32_t handle)
{
    return handle && handle <= syncobj_count && syncobjs[handle - 1].used ? &syncobjs[handle - 1] : NULL;
}

static int syncobj_create(uint32_t *handle, bool signaled)
{
    int error = grow(&syncobjs, syncobj_count, &syncobj_room, sizeof *syncobjs);

    if (!error) {
        syncobjs[syncobj_count++] = (struct syncobj){ signaled, true };
        *handle = syncobj_count;
    }
    return error;
}

enum { WAIT_ALL = 1 };

/* A point of 0 of a timeline is there from the beginning. */
static bool is_reached(const uint32_t *handles, const uint64_t *points, uint32_t count, bool all, uint32_t *first)
{
    for (uint32_t i = 0; i < count; i++) {
        struct syncobj *one = syncobj(handles[i]);
        bool there = one && one->point >= (points && points[i] ? points[i] : points ? 0 : 1);

        if (there && !all) {
            *first = i;
            return true;
        }
        if (!there && all)
            return false;
    }
    return all;
}

/* The deadline is absolute, of the monotonic clock. */
static int syncobj_wait(const uint32_t *handles, const uint64_t *points, uint32_t count, uint32_t flags, int64_t deadline,
                        uint32_t *first)
{
    struct timespec until = { deadline / 1000000000, deadline % 1000000000 };

    for (uint32_t i = 0; i < count; i++)
        if (!syncobj(handles[i]))
            return -ENOENT;
    while (!is_reached(handles, points, count, flags & WAIT_ALL, first))
        if (deadline <= 0 || pthread_cond_timedwait(&reached, &lock, &until) == ETIMEDOUT)
            return -ETIME;
    return 0;
}

static int syncobj_set(const uint32_t *handles, const uint64_t *points, uint32_t count, uint64_t point)
{
    for (uint32_t i = 0; i < count; i++) {
        struct syncobj *one = syncobj(handles[i]);

        if (!one)
            return -ENOENT;
        one->point = points ? points[i] : point;
    }
    pthread_cond_broadcast(&reached);
    return 0;
}

static int syncobj_ioctl(unsigned number, void *argument)
{
    struct {
        uint32_t handle, flags;
    } *one = argument;
    struct {
        uint64_t handles;
        uint32_t count, pad;
    } *many = argument;
    struct {
        uint64_t handles;
        int64_t timeout;
        uint32_t count, flags, first, pad;
    } *wait = argument;
    struct {
        uint64_t handles, points;
        int64_t timeout;
        uint32_t count, flags, first, pad;
    } *timeline_wait = argument;
    struct {
        uint64_t handles, points;
        uint32_t count, flags;
    } *points = argument;
    struct syncobj *found;

    switch (number) {
    case 0xbf: /* DRM_IOCTL_SYNCOBJ_CREATE */
        return syncobj_create(&one->handle, one->flags & 1);
    case 0xc0: /* DRM_IOCTL_SYNCOBJ_DESTROY */
        found = syncobj(one->handle);
        if (!found)
            return -EINVAL;
        found->used = false;
        return 0;
    case 0xc3: /* DRM_IOCTL_SYNCOBJ_WAIT */
        return syncobj_wait((uint32_t *)wait->handles, NULL, wait->count, wait->flags, wait->timeout, &wait->first);
    case 0xc4: /* DRM_IOCTL_SYNCOBJ_RESET */
        return syncobj_set((uint32_t *)many->handles, NULL, many->count, 0);
    case 0xc5: /* DRM_IOCTL_SYNCOBJ_SIGNAL */
        return syncobj_set((uint32_t *)many->handles, NULL, many->count, 1);
    case 0xca: /* DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT */
        return syncobj_wait((uint32_t *)timeline_wait->handles, (uint64_t *)timeline_wait->points, timeline_wait->count,
                            timeline_wait->flags, timeline_wait->timeout, &timeline_wait->first);
    case 0xcb: /* DRM_IOCTL_SYNCOBJ_QUERY */
        for (uint32_t i = 0; i < points->count; i++) {
            found = syncobj(((uint32_t *)points->handles)[i]);
            if (!found)
                return -ENOENT;
            ((uint64_t *)points->points)[i] = found->point;
        }
        return 0;
    case 0xcd: /* DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL */
        return syncobj_set((uint32_t *)points->handles, (uint64_t *)points->points, points->count, 0);
    }
    return -EOPNOTSUPP;
}

/* What a submission or a binding of memory waits for and signals. */
struct sync {
    uint64_t extensions;
    uint32_t type, flags, handle, pad;
    uint64_t point, reserved[2];
};

enum { SYNC_SYNCOBJ, SYNC_TIMELINE_SYNCOBJ };

/* Signals what is to be signaled: nothing is executed, so all is complete. Fences in memory are left alone. */
static int complete(const struct sync *syncs, uint32_t count)
{
    int error = 0;

    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; !error && i < count; i++) {
        bool timeline = syncs[i].type == SYNC_TIMELINE_SYNCOBJ;

        if ((syncs[i].flags & 1) && (timeline || syncs[i].type == SYNC_SYNCOBJ))
            error = syncobj_set(&syncs[i].handle, NULL, 1, timeline ? syncs[i].point : 1);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

/* -------------------------------------------------------------------------------------------------- questions about it */

struct query {
    uint64_t extensions;
    uint32_t query, size;
    uint64_t data;
};

/* The first call asks for the size, the second has room. */
static int reply(struct query *it, const void *data, size_t size)
{
    if (!it->size) {
        it->size = size;
        return 0;
    }
    if (it->size != size)
        return -EINVAL;
    memcpy((void *)it->data, data, size);
    return 0;
}

static int query_engines(struct query *it)
{
    /* DRM_XE_ENGINE_CLASS_RENDER, _COPY and _COMPUTE, one of each. Those for video are left out. */
    struct {
        uint32_t count, pad;
        struct {
            uint16_t class, instance, gt, pad;
            uint64_t reserved[3];
        } engines[3];
    } data = { 3, 0, { { .class = 0 }, { .class = 1 }, { .class = 4 } } };

    return reply(it, &data, sizeof data);
}

static int query_memory(struct query *it)
{
    /* The system's memory, and the GPU's, all of which the processor sees. */
    struct {
        uint32_t count, pad;
        struct {
            uint16_t class, instance;
            uint32_t page;
            uint64_t total, used, visible, visible_used, reserved[6];
        } regions[2];
    } data = { 2, 0, { { 0, 0, 4096, 32 * GIB, 0, 0, 0, { 0 } }, { 1, 1, 65536, gpu->vram, 0, gpu->vram, 0, { 0 } } } };

    return reply(it, &data, sizeof data);
}

static int query_config(struct query *it)
{
    /* Revision and device, flags (there is video memory), alignment of memory, bits of an address, highest priority. */
    struct {
        uint32_t count, pad;
        uint64_t info[5];
    } data = { 5, 0, { (uint64_t)gpu->revision << 16 | gpu->device, 1, 65536, 48, 1 } };

    return reply(it, &data, sizeof data);
}

static int query_gts(struct query *it)
{
    /* One, the main one: the other is for video. The clock is the one that timestamps count, in Hz. */
    struct {
        uint32_t count, pad;
        struct {
            uint16_t type, tile, id, pad[3];
            uint32_t clock;
            uint64_t near, far;
            uint16_t ip_major, ip_minor, ip_revision, pad2;
            uint64_t reserved[7];
        } gts[1];
    } data = { 1, 0, { { .clock = 19200000, .near = 2, .far = 1 } } };

    data.gts[0].ip_major = gpu->ip_major;
    data.gts[0].ip_minor = gpu->ip_minor;
    data.gts[0].ip_revision = gpu->ip_revision;
    return reply(it, &data, sizeof data);
}

static int query_hardware(struct query *it)
{
    /* Keys and values of a table that the GPU's firmware has: the units of a core, and the threads of a unit. All else is in
     * the driver's own tables. */
    uint32_t data[] = { 3, 1, __builtin_popcount(gpu->units), 15, 1, 8 };

    return reply(it, data, sizeof data);
}

static int query_topology(struct query *it)
{
    struct mask {
        uint16_t gt, type;
        uint32_t bytes, bits;
    } data[] = {
        { 0, TOPO_DSS_GEOMETRY, 4, gpu->cores },
        { 0, TOPO_DSS_COMPUTE, 4, gpu->cores },
        { 0, gpu->units_type, 4, gpu->units },
    };

    return reply(it, data, sizeof data);
}

static int query_cycles(struct query *it)
{
    struct {
        uint16_t engine[4];
        int32_t clock;
        uint32_t width;
        uint64_t cycles, time, delta;
    } *data = (void *)it->data;
    struct timespec now;

    if (!it->size) {
        it->size = sizeof *data;
        return 0;
    }
    if (it->size != sizeof *data || clock_gettime(data->clock, &now))
        return -EINVAL;
    data->width = 36;
    data->time = now.tv_sec * 1000000000ull + now.tv_nsec;
    data->cycles = data->time * 12 / 625;
    data->delta = 100;
    return 0;
}

static int query(struct query *it)
{
    switch (it->query) {
    case 0: return query_engines(it);
    case 1: return query_memory(it);
    case 2: return query_config(it);
    case 3: return query_gts(it);
    case 4: return query_hardware(it);
    case 5: return query_topology(it);
    case 6: return query_cycles(it);
    }
    /* Versions of firmware, counters for profiling, protected content: as a kernel without them says it. */
    return -EINVAL;
}

/* -------------------------------------------------------------------------------------------------------------- ioctls */

static int xe_ioctl(unsigned number, void *argument)
{
    static uint32_t ids;
    struct {
        uint64_t extensions;
        uint32_t flags, id;
    } *vm = argument;
    struct {
        uint64_t extensions;
        uint32_t vm, queue, pad, count;
        /* One operation, or the address of several. */
        uint8_t operations[80];
        uint32_t pad2, sync_count;
        uint64_t syncs;
    } *bind = argument;
    struct {
        uint64_t extensions;
        uint16_t width, placements;
        uint32_t vm, flags, id;
    } *queue = argument;
    struct {
        uint64_t extensions;
        uint32_t queue, property;
        uint64_t value;
    } *property = argument;
    struct {
        uint64_t extensions;
        uint32_t queue, sync_count;
        uint64_t syncs;
    } *exec = argument;

    switch (number) {
    case 0x00: /* DRM_IOCTL_XE_DEVICE_QUERY */
        return query(argument);
    case 0x01: /* DRM_IOCTL_XE_GEM_CREATE */
        return gem_create(argument);
    case 0x02: /* DRM_IOCTL_XE_GEM_MMAP_OFFSET */
        return gem_mmap_offset(argument);
    case 0x03: /* DRM_IOCTL_XE_VM_CREATE */
        vm->id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
        return 0;
    case 0x04: /* DRM_IOCTL_XE_VM_DESTROY */
        return 0;
    case 0x05: /* DRM_IOCTL_XE_VM_BIND */
        return complete((struct sync *)bind->syncs, bind->sync_count);
    case 0x06: /* DRM_IOCTL_XE_EXEC_QUEUE_CREATE */
        queue->id = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
        return 0;
    case 0x07: /* DRM_IOCTL_XE_EXEC_QUEUE_DESTROY */
        return 0;
    case 0x08: /* DRM_IOCTL_XE_EXEC_QUEUE_GET_PROPERTY: the queue is not banned */
        property->value = 0;
        return 0;
    case 0x09: /* DRM_IOCTL_XE_EXEC */
        return complete((struct sync *)exec->syncs, exec->sync_count);
    }
    return -EINVAL;
}

/* Copies a text to where there is room for some of it, and says how long it is. */
static void put_text(char *to, size_t *length, const char *text)
{
    if (to)
        memcpy(to, text, *length < strlen(text) ? *length : strlen(text));
    *length = strlen(text);
}

static int drm_ioctl(unsigned number, void *argument)
{
    struct {
        int32_t major, minor, patch;
        size_t name_length;
        char *name;
        size_t date_length;
        char *date;
        size_t text_length;
        char *text;
    } *version = argument;
    struct {
        uint64_t capability, value;
    } *capability = argument;
    int error;

    switch (number) {
    case 0x00: /* DRM_IOCTL_VERSION */
        version->major = 1;
        version->minor = 1;
        version->patch = 0;
        put_text(version->name, &version->name_length, "xe");
        put_text(version->date, &version->date_length, "20201103");
        put_text(version->text, &version->text_length, "Intel Xe2 Graphics");
        return 0;
    case 0x09: /* DRM_IOCTL_GEM_CLOSE */
        return gem_close(*(uint32_t *)argument);
    case 0x0c: /* DRM_IOCTL_GET_CAP: DRM_CAP_SYNCOBJ and DRM_CAP_SYNCOBJ_TIMELINE; buffers of other processes are not taken */
        capability->value = capability->capability == 0x13 || capability->capability == 0x14;
        return 0;
    }
    if (number >= 0xbf && number <= 0xcf) {
        pthread_mutex_lock(&lock);
        error = syncobj_ioctl(number, argument);
        pthread_mutex_unlock(&lock);
        return error;
    }
    return -EOPNOTSUPP;
}

EXPORT int ioctl(int fd, unsigned long request, ...)
{
    unsigned number = _IOC_NR(request);
    va_list list;
    void *argument;
    int result;

    va_start(list, request);
    argument = va_arg(list, void *);
    va_end(list);
    start();
    if (_IOC_TYPE(request) != 'd' || !is_node(fd))
        return real_ioctl(fd, request, argument);
    result = number >= 0x40 && number < 0xa0 ? xe_ioctl(number - 0x40, argument) : drm_ioctl(number, argument);
    if (getenv("XE_SHIM_DEBUG"))
        fprintf(stderr, "xe-shim: ioctl 0x%02x%s%s\n", number, result ? ": " : "", result ? strerror(-result) : "");
    if (!result)
        return 0;
    errno = -result;
    return -1;
}
