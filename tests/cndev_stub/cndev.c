/* A libcndev.so of two cards that remember their sMLU mode, profiles and instances.
 *
 * Structures are laid out as in Cambricon's header for API version 6; a call with another version fails, and so does
 * one whose structure is not where it should be. Instances outlive nothing but the process. */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { OK = 0, WRONG_VERSION = 5, INVALID = 6, NOT_FOUND = 9, CARDS = 2, MOST = 16, VERSION = 6 };

typedef struct { int version; unsigned number; } card_info;
typedef struct { int version; int mode; } smlu_mode;
typedef struct { int version; uint32_t quota; uint64_t memory; } smlu_set;
typedef struct { int version; int count; int ids[128]; } profile_ids;
typedef struct {
  int version, profile_id;
  char name[100];
  uint32_t total, remain, quota[2];
  uint64_t memory[2];
} profile_info;
typedef struct {
  int version, profile_id, instance_id;
  uint8_t uuid[37];
  int domain, bus, device, function;
  char profile_name[100], instance_name[100], node[100];
  uint32_t quota[2];
  uint64_t memory[2];
  unsigned reserved[128];
} smlu_info;

static struct {
  int mode, profiles, instances;
  smlu_set profile[MOST];
  smlu_info instance[MOST];
} cards[CARDS];

int cndevInit(int reserved) { return reserved; }

int cndevGetDeviceCount(card_info *info) {
  if (info->version != VERSION) return WRONG_VERSION;
  info->number = CARDS;
  return OK;
}

int cndevGetDeviceHandleByIndex(int index, int *handle) {
  if (index < 0 || index >= CARDS) return INVALID;
  *handle = index;
  return OK;
}

int cndevGetSMLUMode(smlu_mode *mode, int card) {
  if (mode->version != VERSION) return WRONG_VERSION;
  mode->mode = cards[card].mode;
  return OK;
}

int cndevSetSMLUMode(smlu_mode *mode, int card) {
  if (mode->version != VERSION) return WRONG_VERSION;
  cards[card].mode = mode->mode;
  return OK;
}

int cndevGetSMluProfileIdInfo(profile_ids *ids, int card) {
  if (ids->version != VERSION) return WRONG_VERSION;
  ids->count = cards[card].profiles;
  for (int at = 0; at < ids->count; at++) ids->ids[at] = at;
  return OK;
}

int cndevGetSMluProfileInfo(profile_info *info, int profile, int card) {
  if (info->version != VERSION) return WRONG_VERSION;
  info->quota[0] = cards[card].profile[profile].quota;
  info->memory[0] = cards[card].profile[profile].memory;
  return OK;
}

int cndevCreateSMluProfileInfo(smlu_set *set, int *profile, int card) {
  if (set->version != VERSION) return WRONG_VERSION;
  if (!cards[card].mode || cards[card].profiles == MOST) return INVALID;
  *profile = cards[card].profiles++;
  cards[card].profile[*profile] = *set;
  return OK;
}

int cndevCreateSMluInstanceByProfileId(int *instance, unsigned profile, int card, char *name) {
  if (!cards[card].mode || profile >= (unsigned)cards[card].profiles || cards[card].instances == MOST) return INVALID;
  smlu_info *made = &cards[card].instance[*instance = cards[card].instances++];
  memset(made, 0, sizeof *made);
  made->profile_id = (int)profile;
  made->quota[0] = cards[card].profile[profile].quota;
  made->memory[0] = cards[card].profile[profile].memory;
  snprintf(made->instance_name, sizeof made->instance_name, "%s", name);
  snprintf(made->node, sizeof made->node, "cambricon-caps/cap_dev%d_mi%u", card, profile);
  return OK;
}

int cndevGetAllSMluInstanceInfo(int *count, smlu_info *infos, int card) {
  if (infos->version != VERSION) return WRONG_VERSION;
  *count = cards[card].instances;
  memcpy(infos, cards[card].instance, sizeof *infos * (size_t)*count);
  return OK;
}

int cndevDestroySMluInstanceByInstanceName(int card, char *name) {
  for (int at = 0; at < cards[card].instances; at++) {
    if (strcmp(cards[card].instance[at].instance_name, name)) continue;
    cards[card].instance[at] = cards[card].instance[--cards[card].instances];
    return OK;
  }
  return NOT_FOUND;
}
