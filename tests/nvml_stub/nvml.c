/*
 * NVIDIA's management library without NVIDIA's hardware: the entry points that the agent calls, with the real names,
 * structures and error codes, so that the real bindings load it and the real calls are made.
 *
 * What the machine is like is read from $NVML_STUB_DIR at every call, so a test changes it while the agent runs:
 *
 *   machine    driver|VERSION            cuda|NUMBER
 *              card|UUID|NAME|BYTES|CORES|BUS ID|CLASS|NUMA|CPU MASK|CAPABILITY|ARCHITECTURE|MIG|GEOMETRY|ADVICE
 *              profile|GEOMETRY|KIND|ID|SLICES|COUNT|MIB|NAME|LENGTH|START,START,…
 *              (NUMA, MIG and ADVICE are -1 where the card or the driver does not tell; an empty NAME is an old driver)
 *   faults     FUNCTION|UUID|CODE|TIMES  (* matches any; times -1 is for ever)
 *   events     UUID|TYPE|DATA            (taken one by one by whoever waits)
 *   instances  UUID|GI|PROFILE ID|START|LENGTH|MIG UUID or -|TRIES THAT FIND IT IN USE
 *              (kept in a file because instances outlive processes on the hardware too)
 */

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10, IN_USE = 19, INSUFFICIENT_RESOURCES = 23, VERSION_MISMATCH = 25,
};

#define CARDS 16
#define ROWS 256
#define COLUMNS 16
#define RECOVERY_ACTION_FIELD 230

typedef unsigned int u32;
typedef unsigned long long u64;

/* What a handle points at. Nothing is cached behind one: every call looks the machine up again. */
struct handle { int card; int instance; };

/* One per use and thread: what a wait reads must not change under a call. */
struct table { int rows; char text[1 << 16]; char *cell[ROWS][COLUMNS]; };

static struct handle card_handles[CARDS], instance_handles[CARDS][64], mig_handles[CARDS][64], event_set;
static u64 registered[CARDS];
static int opened;

/* --- the machine's files ---------------------------------------------------------------------------------------- */

static void path_of(const char *name, char *path) {
    const char *directory = getenv("NVML_STUB_DIR");
    snprintf(path, 4096, "%s/%s", directory ? directory : "/nonexistent", name);
}

static void read_table(const char *name, struct table *table) {
    char path[4096];
    table->rows = 0;
    memset(table->cell, 0, sizeof table->cell);
    path_of(name, path);
    FILE *file = fopen(path, "r");
    if (!file) return;
    size_t size = fread(table->text, 1, sizeof table->text - 1, file);
    table->text[size] = 0;
    fclose(file);
    char *rest = table->text, *line;
    while ((line = strsep(&rest, "\n")) && table->rows < ROWS) {
        if (!*line) continue;
        for (int column = 0; column < COLUMNS && line; column++) table->cell[table->rows][column] = strsep(&line, "|");
        table->rows++;
    }
}

static void write_table(const char *name, const struct table *table) {
    char path[4096], fresh[4112];
    path_of(name, path);
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *file = fopen(fresh, "w");
    if (!file) return;
    for (int row = 0; row < table->rows; row++) {
        if (!table->cell[row][0]) continue;
        for (int column = 0; column < COLUMNS && table->cell[row][column]; column++)
            fprintf(file, "%s%s", column ? "|" : "", table->cell[row][column]);
        fputc('\n', file);
    }
    fclose(file);
    rename(fresh, path);
}

static char **fact(struct table *machine, const char *kind, int nth) {
    for (int row = 0; row < machine->rows; row++)
        if (!strcmp(machine->cell[row][0], kind) && nth-- == 0) return machine->cell[row];
    return NULL;
}

/* --- cards ------------------------------------------------------------------------------------------------------ */

enum { UUID = 1, NAME, BYTES, CORES, BUS, CLASS, NUMA, CPUS, CAPABILITY, ARCHITECTURE, MIG, GEOMETRY, ADVICE };
enum { P_GEOMETRY = 1, P_KIND, P_ID, P_SLICES, P_COUNT, P_MIB, P_NAME, P_LENGTH, P_STARTS };
enum { I_CARD = 0, I_ID, I_PROFILE, I_START, I_LENGTH, I_MIG, I_USED };

static int matches(const char *pattern, const char *text) { return !strcmp(pattern, "*") || !strcmp(pattern, text); }

/* The error that a test asked for in this call, if it did. */
static int fault(const char *function, const char *uuid) {
    static _Thread_local struct table faults;
    char left[16];
    read_table("faults", &faults);
    for (int row = 0; row < faults.rows; row++) {
        char **cell = faults.cell[row];
        int times = atoi(cell[3]);
        if (!times || !matches(cell[0], function) || !matches(cell[1], uuid)) continue;
        int code = atoi(cell[2]);
        if (times > 0) {
            snprintf(left, sizeof left, "%d", times - 1);
            cell[3] = left;
            write_table("faults", &faults);
        }
        return code;
    }
    return OK;
}

static char **card_at(struct table *machine, const void *handle) {
    read_table("machine", machine);
    return handle ? fact(machine, "card", ((const struct handle *)handle)->card) : NULL;
}

#define OPENED(uuid) \
    do { \
        if (!opened) return UNINITIALIZED; \
        int code = fault(__func__, uuid); \
        if (code) return code; \
    } while (0)

/* The card behind a handle, or this call's error. */
#define CARD(handle) \
    static _Thread_local struct table machine; \
    char **card = card_at(&machine, handle); \
    if (!card) return INVALID_ARGUMENT; \
    OPENED(card[UUID])

/* --- library ---------------------------------------------------------------------------------------------------- */

int nvmlInitWithFlags(u32 flags) {
    (void)flags;
    int code = fault(__func__, "*");
    if (!code) opened++;
    return code;
}

int nvmlShutdown(void) {
    if (!opened) return UNINITIALIZED;
    opened--;
    return OK;
}

const char *nvmlErrorString(int code) {
    static char text[64];
    snprintf(text, sizeof text, "stubbed error %d", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *version, u32 size) {
    OPENED("*");
    static _Thread_local struct table machine;
    read_table("machine", &machine);
    char **row = fact(&machine, "driver", 0);
    if (!row) return NOT_FOUND;
    snprintf(version, size, "%s", row[1]);
    return OK;
}

int nvmlSystemGetCudaDriverVersion(int *version) {
    OPENED("*");
    static _Thread_local struct table machine;
    read_table("machine", &machine);
    char **row = fact(&machine, "cuda", 0);
    if (!row) return NOT_FOUND;
    *version = atoi(row[1]);
    return OK;
}

int nvmlDeviceGetCount_v2(u32 *count) {
    OPENED("*");
    static _Thread_local struct table machine;
    read_table("machine", &machine);
    for (*count = 0; fact(&machine, "card", *count); ++*count) {}
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(u32 index, void **device) {
    struct handle wanted = {.card = index};
    CARD(&wanted);
    card_handles[index] = wanted;
    *device = &card_handles[index];
    return OK;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    OPENED(uuid);
    static _Thread_local struct table machine;
    read_table("machine", &machine);
    char **card;
    for (int at = 0; (card = fact(&machine, "card", at)); at++) {
        if (strcmp(card[UUID], uuid)) continue;
        card_handles[at].card = at;
        *device = &card_handles[at];
        return OK;
    }
    return NOT_FOUND;
}

/* --- what a card says of itself --------------------------------------------------------------------------------- */

int nvmlDeviceGetName(void *device, char *name, u32 size) {
    CARD(device);
    if (strlen(card[NAME]) >= size) return INSUFFICIENT_SIZE;
    strcpy(name, card[NAME]);
    return OK;
}

int nvmlDeviceGetMemoryInfo(void *device, u64 *memory) {
    CARD(device);
    memory[0] = memory[1] = strtoull(card[BYTES], NULL, 10);
    memory[2] = 0;
    return OK;
}

int nvmlDeviceGetNumGpuCores(void *device, u32 *cores) {
    CARD(device);
    *cores = atoi(card[CORES]);
    return *cores ? OK : NOT_SUPPORTED;
}

struct pci { char legacy[16]; u32 domain, bus, device, id, subsystem; char bus_id[32]; };

int nvmlDeviceGetPciInfo_v3(void *device, struct pci *pci) {
    CARD(device);
    memset(pci, 0, sizeof *pci);
    snprintf(pci->bus_id, sizeof pci->bus_id, "%s", card[BUS]);
    sscanf(card[BUS], "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
    return OK;
}

struct pci_ext { u32 version, domain, bus, device, id, subsystem, base_class, sub_class; char bus_id[32]; };

int nvmlDeviceGetPciInfoExt(void *device, struct pci_ext *pci) {
    CARD(device);
    if (pci->version != (sizeof *pci | 1u << 24)) return VERSION_MISMATCH;
    u32 class = strtoul(card[CLASS], NULL, 16);
    if (!class) return NOT_SUPPORTED;
    pci->base_class = class >> 8;
    pci->sub_class = class & 0xff;
    return OK;
}

int nvmlDeviceGetMemoryAffinity(void *device, u32 words, u64 *nodes, u32 scope) {
    (void)scope;
    CARD(device);
    int node = atoi(card[NUMA]);
    if (node < 0) return NOT_SUPPORTED;
    memset(nodes, 0, words * sizeof *nodes);
    nodes[node / 64] = 1ull << node % 64;
    return OK;
}

/* The mask is given in hexadecimal, its lowest word first, words apart by commas. */
int nvmlDeviceGetCpuAffinity(void *device, u32 words, u64 *cpus) {
    CARD(device);
    memset(cpus, 0, words * sizeof *cpus);
    char *rest = card[CPUS];
    for (u32 at = 0; at < words && *rest; at++) {
        cpus[at] = strtoull(rest, &rest, 16);
        if (*rest == ',') rest++;
    }
    return OK;
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
    CARD(device);
    return sscanf(card[CAPABILITY], "%d.%d", major, minor) == 2 ? OK : NOT_SUPPORTED;
}

int nvmlDeviceGetArchitecture(void *device, u32 *architecture) {
    CARD(device);
    *architecture = atoi(card[ARCHITECTURE]);
    return OK;
}

struct field { u32 id, scope; int64_t time, latency; u32 type, code; union { u32 number; u64 room; } value; };

int nvmlDeviceGetFieldValues(void *device, int count, struct field *fields) {
    CARD(device);
    for (int at = 0; at < count; at++) {
        int told = fields[at].id == RECOVERY_ACTION_FIELD && atoi(card[ADVICE]) >= 0;
        fields[at].code = told ? OK : NOT_SUPPORTED;
        fields[at].type = 1;
        fields[at].value.number = told ? atoi(card[ADVICE]) : 0;
    }
    return OK;
}

/* --- events ----------------------------------------------------------------------------------------------------- */

int nvmlDeviceGetSupportedEventTypes(void *device, u64 *types) {
    CARD(device);
    *types = 0xffff;
    return OK;
}

int nvmlEventSetCreate(void **set) {
    OPENED("*");
    memset(registered, 0, sizeof registered);
    *set = &event_set;
    return OK;
}

int nvmlEventSetFree(void *set) {
    (void)set;
    memset(registered, 0, sizeof registered);
    return OK;
}

int nvmlDeviceRegisterEvents(void *device, u64 types, void *set) {
    CARD(device);
    if (set != &event_set) return INVALID_ARGUMENT;
    registered[((struct handle *)device)->card] |= types;
    return OK;
}

struct event { void *device; u64 type, data; u32 gpu_instance, compute_instance; };

/* Take the oldest event; whether somebody registered for it. */
static int take_event(struct event *event) {
    static _Thread_local struct table events, machine;
    read_table("events", &events);
    if (!events.rows) return 0;
    char **told = events.cell[0], **card;
    char *uuid = told[0];
    int wanted = 0;
    read_table("machine", &machine);
    for (int at = 0; (card = fact(&machine, "card", at)); at++) {
        u64 type = strtoull(told[1], NULL, 0);
        if (strcmp(card[UUID], uuid) || !(registered[at] & type)) continue;
        card_handles[at].card = at;
        *event = (struct event){&card_handles[at], type, strtoull(told[2], NULL, 0), ~0u, ~0u};
        wanted = 1;
    }
    told[0] = NULL;
    write_table("events", &events);
    return wanted;
}

int nvmlEventSetWait_v2(void *set, struct event *event, u32 milliseconds) {
    OPENED("*");
    if (set != &event_set) return INVALID_ARGUMENT;
    for (u32 waited = 0;; waited += 5) {
        if (take_event(event)) return OK;
        if (waited >= milliseconds) return TIMEOUT;
        usleep(5000);
    }
}

/* --- MIG: what a card offers ------------------------------------------------------------------------------------ */

int nvmlDeviceGetMigMode(void *device, u32 *current, u32 *pending) {
    CARD(device);
    if (atoi(card[MIG]) < 0) return NOT_SUPPORTED;
    *current = *pending = atoi(card[MIG]);
    return OK;
}

static char **profile_by(struct table *machine, char **card, int column, int value) {
    char **row;
    for (int at = 0; (row = fact(machine, "profile", at)); at++)
        if (!strcmp(row[P_GEOMETRY], card[GEOMETRY]) && atoi(row[column]) == value) return row;
    return NULL;
}

struct profile_v1 { u32 id, p2p, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa; u64 mib; };
struct profile_v2 {
    u32 version, id, p2p, slices, count, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    u64 mib;
    char name[96];
};

int nvmlDeviceGetGpuInstanceProfileInfo(void *device, u32 kind, struct profile_v1 *info) {
    CARD(device);
    char **row = profile_by(&machine, card, P_KIND, kind);
    if (!row) return NOT_SUPPORTED;
    memset(info, 0, sizeof *info);
    info->id = atoi(row[P_ID]);
    info->slices = atoi(row[P_SLICES]);
    info->count = atoi(row[P_COUNT]);
    info->mib = atoi(row[P_MIB]);
    return OK;
}

int nvmlDeviceGetGpuInstanceProfileInfoV(void *device, u32 kind, struct profile_v2 *info) {
    CARD(device);
    if (info->version != (sizeof *info | 2u << 24)) return VERSION_MISMATCH;
    char **row = profile_by(&machine, card, P_KIND, kind);
    if (!row) return NOT_SUPPORTED;
    if (!*row[P_NAME]) return VERSION_MISMATCH;
    info->id = atoi(row[P_ID]);
    info->slices = atoi(row[P_SLICES]);
    info->count = atoi(row[P_COUNT]);
    info->mib = atoi(row[P_MIB]);
    snprintf(info->name, sizeof info->name, "MIG %s", row[P_NAME]);
    return OK;
}

struct placement { u32 start, size; };

int nvmlDeviceGetGpuInstancePossiblePlacements_v2(void *device, u32 id, struct placement *places, u32 *count) {
    CARD(device);
    char **row = profile_by(&machine, card, P_ID, id);
    if (!row || atoi(card[MIG]) != 1) return NOT_SUPPORTED;
    u32 room = *count;
    *count = 0;
    for (char *rest = row[P_STARTS]; *rest; ) {
        u32 start = strtoul(rest, &rest, 10);
        if (*rest == ',') rest++;
        if (places && *count < room) places[*count] = (struct placement){start, atoi(row[P_LENGTH])};
        ++*count;
    }
    return OK;
}

/* --- MIG: instances --------------------------------------------------------------------------------------------- */

static int has_compute(char **instance) { return strcmp(instance[I_MIG], "-") != 0; }

static char **instance_at(struct table *instances, const char *uuid, int id) {
    read_table("instances", instances);
    for (int row = 0; row < instances->rows; row++)
        if (!strcmp(instances->cell[row][I_CARD], uuid) && atoi(instances->cell[row][I_ID]) == id)
            return instances->cell[row];
    return NULL;
}

/* The instance behind a handle, its card, and its profile, or this call's error. */
#define INSTANCE(behind) \
    CARD(behind); \
    static _Thread_local struct table instances; \
    char **instance = instance_at(&instances, card[UUID], ((struct handle *)behind)->instance); \
    if (!instance) return NOT_FOUND; \
    char **profile = profile_by(&machine, card, P_ID, atoi(instance[I_PROFILE])); \
    if (!profile) return NOT_FOUND

int nvmlDeviceCreateGpuInstanceWithPlacement(void *device, u32 id, const struct placement *place, void **made) {
    CARD(device);
    static _Thread_local struct table instances;
    char cells[4][16];
    if (atoi(card[MIG]) != 1) return NOT_SUPPORTED;
    char **row = profile_by(&machine, card, P_ID, id);
    if (!row || (u32)atoi(row[P_LENGTH]) != place->size) return INVALID_ARGUMENT;
    int legal = 0;
    for (char *rest = row[P_STARTS]; *rest; ) {
        legal |= strtoul(rest, &rest, 10) == place->start;
        if (*rest == ',') rest++;
    }
    if (!legal) return INVALID_ARGUMENT;
    int number = 1;
    while (instance_at(&instances, card[UUID], number)) number++;
    read_table("instances", &instances);
    for (int at = 0; at < instances.rows; at++) {
        char **other = instances.cell[at];
        u32 start = atoi(other[I_START]), end = start + atoi(other[I_LENGTH]);
        if (!strcmp(other[I_CARD], card[UUID]) && start < place->start + place->size && place->start < end)
            return INSUFFICIENT_RESOURCES;
    }
    if (instances.rows == ROWS) return INSUFFICIENT_RESOURCES;
    snprintf(cells[0], 16, "%d", number);
    snprintf(cells[1], 16, "%u", id);
    snprintf(cells[2], 16, "%u", place->start);
    snprintf(cells[3], 16, "%u", place->size);
    char **fresh = instances.cell[instances.rows++];
    fresh[I_CARD] = card[UUID];
    for (int at = 0; at < 4; at++) fresh[I_ID + at] = cells[at];
    fresh[I_MIG] = "-";
    fresh[I_USED] = "0";
    write_table("instances", &instances);
    struct handle *handle = &instance_handles[((struct handle *)device)->card][number];
    *handle = (struct handle){((struct handle *)device)->card, number};
    *made = handle;
    return OK;
}

int nvmlDeviceGetGpuInstances(void *device, u32 id, void **handles, u32 *count) {
    CARD(device);
    static _Thread_local struct table instances;
    if (atoi(card[MIG]) != 1) return NOT_SUPPORTED;
    read_table("instances", &instances);
    *count = 0;
    for (int at = 0; at < instances.rows; at++) {
        char **row = instances.cell[at];
        if (strcmp(row[I_CARD], card[UUID]) || (u32)atoi(row[I_PROFILE]) != id) continue;
        struct handle *handle = &instance_handles[((struct handle *)device)->card][atoi(row[I_ID])];
        *handle = (struct handle){((struct handle *)device)->card, atoi(row[I_ID])};
        handles[(*count)++] = handle;
    }
    return OK;
}

struct instance_info { void *device; u32 id, profile; struct placement placement; };

int nvmlGpuInstanceGetInfo(void *handle, struct instance_info *info) {
    INSTANCE(handle);
    *info = (struct instance_info){
        &card_handles[((struct handle *)handle)->card], atoi(instance[I_ID]), atoi(instance[I_PROFILE]),
        {atoi(instance[I_START]), atoi(instance[I_LENGTH])}};
    return OK;
}

int nvmlGpuInstanceDestroy(void *handle) {
    INSTANCE(handle);
    if (has_compute(instance)) return IN_USE;
    instance[0] = NULL;
    write_table("instances", &instances);
    return OK;
}

struct compute_profile { u32 id, slices, count, rest[6]; };

/* A compute profile is known here by its number of slices, which is also its id. */
static int compute_slices(u32 kind) {
    static const int slices[] = {1, 2, 3, 4, 7, 8, 6};
    return kind < sizeof slices / sizeof *slices ? slices[kind] : 0;
}

int nvmlGpuInstanceGetComputeInstanceProfileInfo(void *handle, u32 kind, u32 engine, struct compute_profile *info) {
    INSTANCE(handle);
    if (engine) return INVALID_ARGUMENT;
    int slices = compute_slices(kind), all = atoi(profile[P_SLICES]);
    if (!slices || slices > all) return NOT_SUPPORTED;
    *info = (struct compute_profile){.id = slices, .slices = slices, .count = all / slices};
    return OK;
}

int nvmlGpuInstanceCreateComputeInstance(void *handle, u32 id, void **made) {
    INSTANCE(handle);
    char uuid[64];
    struct timespec now;
    if (has_compute(instance)) return INSUFFICIENT_RESOURCES;
    if ((int)id != atoi(profile[P_SLICES])) return INVALID_ARGUMENT;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(uuid, sizeof uuid, "MIG-%08lx-0000-5000-8000-%012lx", now.tv_sec, now.tv_nsec);
    instance[I_MIG] = uuid;
    write_table("instances", &instances);
    *made = handle;
    return OK;
}

int nvmlGpuInstanceGetComputeInstances(void *handle, u32 id, void **handles, u32 *count) {
    INSTANCE(handle);
    *count = has_compute(instance) && (int)id == atoi(profile[P_SLICES]);
    if (*count) handles[0] = handle;
    return OK;
}

int nvmlComputeInstanceDestroy(void *handle) {
    INSTANCE(handle);
    char left[16];
    int tries = atoi(instance[I_USED]);
    if (tries) {
        snprintf(left, sizeof left, "%d", tries > 0 ? tries - 1 : tries);
        instance[I_USED] = left;
        write_table("instances", &instances);
        return IN_USE;
    }
    instance[I_MIG] = "-";
    write_table("instances", &instances);
    return OK;
}

/* --- MIG: devices ----------------------------------------------------------------------------------------------- */

int nvmlDeviceGetMaxMigDeviceCount(void *device, u32 *count) {
    CARD(device);
    *count = atoi(card[MIG]) < 0 ? 0 : 7;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *device, u32 index, void **mig) {
    CARD(device);
    static _Thread_local struct table instances;
    read_table("instances", &instances);
    u32 seen = 0;
    for (int at = 0; at < instances.rows; at++) {
        char **row = instances.cell[at];
        if (strcmp(row[I_CARD], card[UUID]) || !has_compute(row) || seen++ != index) continue;
        struct handle *handle = &mig_handles[((struct handle *)device)->card][atoi(row[I_ID])];
        *handle = (struct handle){((struct handle *)device)->card, atoi(row[I_ID])};
        *mig = handle;
        return OK;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(void *mig, u32 *id) {
    INSTANCE(mig);
    *id = atoi(instance[I_ID]);
    return OK;
}

static int is_mig(const void *handle) {
    return handle >= (const void *)mig_handles && handle < (const void *)(mig_handles + CARDS);
}

static int mig_uuid(void *mig, char *uuid, u32 size) {
    INSTANCE(mig);
    snprintf(uuid, size, "%s", instance[I_MIG]);
    return OK;
}

int nvmlDeviceGetUUID(void *device, char *uuid, u32 size) {
    if (is_mig(device)) {
        int code = fault(__func__, "*");
        return code ? code : mig_uuid(device, uuid, size);
    }
    CARD(device);
    snprintf(uuid, size, "%s", card[UUID]);
    return OK;
}
