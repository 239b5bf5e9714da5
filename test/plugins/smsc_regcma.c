/*
 * smsc_regcma.c: a single-copy component that demands registration, in knem's way, without a
 * kernel module.
 *
 * Layer: test plugin (smsc framework). A region must be registered by its owner, which yields a
 * cookie of a size that the module announces; a peer may copy only with that cookie, only inside
 * its region and only until the owner takes it back. All three are checked at every copy, the last
 * one by reading the owner's table of live registrations. btl/sm that loses, truncates, mixes up
 * or outlives a cookie gets an error, and the counter "refused" says so to the test.
 *
 * Must never be installed beside real components: it trusts pids.
 */

#include "opal_config.h"

#include "smsc_test_peer.h"

#define REG_SLOTS  65536u
#define COOKIE_MAX 256u

/* A live registration as peers see it in the owner's memory; serial 0 = free. */
typedef struct reg_slot_t {
    uint64_t serial;
    uint64_t base;
    uint64_t size;
} reg_slot_t;

/* What travels. Behind it come padding bytes up to the announced size, with a known content each.
 * */
typedef struct reg_cookie_t {
    uint64_t base;
    uint64_t size;
    uint64_t serial;
    uint64_t slot;
    uint64_t check;
} reg_cookie_t;

typedef struct reg_endpoint_t {
    mca_smsc_endpoint_t super;
    smsc_test_modex_t peer;
} reg_endpoint_t;

OBJ_CLASS_DECLARATION(reg_endpoint_t);
/* 5.0.x declares the class of the base struct and defines it nowhere. */
OBJ_CLASS_INSTANCE(reg_endpoint_t, opal_object_t, NULL, NULL);

static struct {
    pthread_mutex_t lock;
    uint64_t next_serial;
    uint32_t free_slot[REG_SLOTS];
    uint32_t nfree;
    reg_slot_t slot[REG_SLOTS];
    unsigned cookie_size;
    smsc_test_fault_t fail_register;
    smsc_test_fault_t fail_copy;
    smsc_test_counter_t copies;
    smsc_test_counter_t bytes;
    smsc_test_counter_t refused;
    smsc_test_counter_t failed;
    smsc_test_counter_t registered;
    smsc_test_counter_t deregistered;
} reg = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int reg_register(void);
static int reg_query(void);
static mca_smsc_module_t *reg_enable(void);

OPAL_DECLSPEC extern mca_smsc_component_t mca_smsc_regcma_component;

mca_smsc_component_t mca_smsc_regcma_component = {
    .smsc_version =
        {
            MCA_SMSC_DEFAULT_VERSION("regcma"),
            .mca_register_component_params = reg_register,
        },
    .priority = 1,
    .query = reg_query,
    .enable = reg_enable,
};

static int reg_register(void)
{
    const mca_base_component_t *c = &mca_smsc_regcma_component.smsc_version;

    mca_smsc_base_register_default_params(&mca_smsc_regcma_component, 1);
    reg.cookie_size = 44;
    smsc_test_register_unsigned(
        c, "cookie_size", "Bytes of registration data (40 to 256, default 44: no multiple of 8)",
        &reg.cookie_size);
    smsc_test_register_unsigned(c, "fail_register_every",
                                "Every n-th registration gives NULL (0 = none, default)",
                                &reg.fail_register.every);
    smsc_test_register_unsigned(c, "fail_copy_every",
                                "Every n-th copy gives an error (0 = none, default)",
                                &reg.fail_copy.every);
    smsc_test_register_counter(c, "copies", "Copies done", &reg.copies);
    smsc_test_register_counter(c, "bytes", "Bytes copied", &reg.bytes);
    smsc_test_register_counter(c, "refused", "Copies without the right cookie", &reg.refused);
    smsc_test_register_counter(c, "failed", "Copies that failed on demand or by the kernel",
                               &reg.failed);
    smsc_test_register_counter(c, "registered", "Regions registered", &reg.registered);
    smsc_test_register_counter(c, "deregistered", "Regions taken back", &reg.deregistered);
    return OPAL_SUCCESS;
}

static uint64_t cookie_check(const reg_cookie_t *cookie)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    const uint64_t part[4] = {cookie->base, cookie->size, cookie->serial, cookie->slot};

    for (int i = 0; i < 4; i++) {
        h = (h ^ part[i]) * UINT64_C(0x100000001b3);
        h ^= h >> 29;
    }
    return h;
}

static unsigned char padding_byte(const reg_cookie_t *cookie, size_t i)
{
    return (unsigned char) (cookie->serial * 7 + i * 13 + 1);
}

static void *reg_register_region(void *local_address, size_t size)
{
    reg_cookie_t cookie = {.base = (uintptr_t) local_address, .size = size};
    unsigned char *data;

    if (smsc_test_fails(&reg.fail_register)) {
        return NULL;
    }
    data = malloc(reg.cookie_size);
    if (NULL == data) {
        return NULL;
    }
    pthread_mutex_lock(&reg.lock);
    if (0 == reg.nfree) {
        pthread_mutex_unlock(&reg.lock);
        free(data);
        return NULL;
    }
    cookie.slot = reg.free_slot[--reg.nfree];
    cookie.serial = ++reg.next_serial;
    cookie.check = cookie_check(&cookie);
    reg.slot[cookie.slot].base = cookie.base;
    reg.slot[cookie.slot].size = cookie.size;
    reg.slot[cookie.slot].serial = cookie.serial;
    pthread_mutex_unlock(&reg.lock);

    memcpy(data, &cookie, sizeof(cookie));
    for (size_t i = sizeof(cookie); i < reg.cookie_size; i++) {
        data[i] = padding_byte(&cookie, i);
    }
    smsc_test_count(&reg.registered, 1);
    return data;
}

static void reg_deregister_region(void *reg_data)
{
    reg_cookie_t cookie;

    if (NULL == reg_data) {
        return;
    }
    memcpy(&cookie, reg_data, sizeof(cookie));
    pthread_mutex_lock(&reg.lock);
    if (cookie.slot < REG_SLOTS && reg.slot[cookie.slot].serial == cookie.serial) {
        memset(&reg.slot[cookie.slot], 0, sizeof(reg.slot[0]));
        reg.free_slot[reg.nfree++] = (uint32_t) cookie.slot;
        smsc_test_count(&reg.deregistered, 1);
    } else {
        smsc_test_count(&reg.refused, 1); /* taken back twice, or not what we gave */
    }
    pthread_mutex_unlock(&reg.lock);
    free(reg_data);
}

/* Is this the cookie of a live registration of that peer, and does the copy stay inside? */
static bool cookie_allows(const reg_endpoint_t *ep, const void *reg_data, uintptr_t remote,
                          size_t size)
{
    reg_cookie_t cookie;
    reg_slot_t slot;

    if (NULL == reg_data) {
        return false;
    }
    memcpy(&cookie, reg_data, sizeof(cookie));
    if (cookie.check != cookie_check(&cookie) || cookie.slot >= REG_SLOTS) {
        return false;
    }
    for (size_t i = sizeof(cookie); i < reg.cookie_size; i++) {
        if (((const unsigned char *) reg_data)[i] != padding_byte(&cookie, i)) {
            return false;
        }
    }
    if (remote < cookie.base || remote - cookie.base > cookie.size
        || size > cookie.size - (remote - cookie.base)) {
        return false;
    }
    if (OPAL_SUCCESS
        != smsc_test_transfer((pid_t) ep->peer.pid, &slot,
                              (void *) (uintptr_t) (ep->peer.table + cookie.slot * sizeof(slot)),
                              sizeof(slot), false)) {
        return false;
    }
    return slot.serial == cookie.serial && slot.base == cookie.base && slot.size == cookie.size;
}

static int reg_copy(mca_smsc_endpoint_t *endpoint, void *local, void *remote, size_t size,
                    void *reg_data, bool write)
{
    reg_endpoint_t *ep = (reg_endpoint_t *) endpoint;

    if (NULL == ep || !cookie_allows(ep, reg_data, (uintptr_t) remote, size)) {
        smsc_test_count(&reg.refused, 1);
        return OPAL_ERR_BAD_PARAM;
    }
    if (smsc_test_fails(&reg.fail_copy)
        || OPAL_SUCCESS != smsc_test_transfer((pid_t) ep->peer.pid, local, remote, size, write)) {
        smsc_test_count(&reg.failed, 1);
        return OPAL_ERROR;
    }
    smsc_test_count(&reg.copies, 1);
    smsc_test_count(&reg.bytes, size);
    return OPAL_SUCCESS;
}

static int reg_copy_to(mca_smsc_endpoint_t *endpoint, void *local_address, void *remote_address,
                       size_t size, void *reg_data)
{
    return reg_copy(endpoint, local_address, remote_address, size, reg_data, true);
}

static int reg_copy_from(mca_smsc_endpoint_t *endpoint, void *local_address, void *remote_address,
                         size_t size, void *reg_data)
{
    return reg_copy(endpoint, local_address, remote_address, size, reg_data, false);
}

static mca_smsc_endpoint_t *reg_get_endpoint(opal_proc_t *peer_proc)
{
    smsc_test_modex_t peer;
    reg_endpoint_t *ep;

    if (OPAL_SUCCESS
        != smsc_test_look_up(&mca_smsc_regcma_component.smsc_version, peer_proc, &peer)) {
        return NULL;
    }
    ep = OBJ_NEW(reg_endpoint_t);
    if (NULL != ep) {
        ep->super.proc = peer_proc;
        ep->peer = peer;
    }
    return &ep->super;
}

static void reg_return_endpoint(mca_smsc_endpoint_t *endpoint)
{
    OBJ_RELEASE(endpoint);
}

static mca_smsc_module_t reg_module = {
    .features = 1, /* registration is required; early 5.0.x spells the constant differently */
    .get_endpoint = reg_get_endpoint,
    .return_endpoint = reg_return_endpoint,
    .copy_to = reg_copy_to,
    .copy_from = reg_copy_from,
    .register_region = reg_register_region,
    .deregister_region = reg_deregister_region,
};

static int reg_query(void)
{
    if (reg.cookie_size < sizeof(reg_cookie_t) || reg.cookie_size > COOKIE_MAX) {
        return OPAL_ERR_NOT_AVAILABLE;
    }
    for (uint32_t i = 0; i < REG_SLOTS; i++) {
        reg.free_slot[i] = REG_SLOTS - 1 - i;
    }
    reg.nfree = REG_SLOTS;
    return smsc_test_publish(&mca_smsc_regcma_component.smsc_version, reg.slot);
}

static mca_smsc_module_t *reg_enable(void)
{
    reg_module.registration_data_size = reg.cookie_size;
    return &reg_module;
}

#ifdef MCA_BASE_COMPONENT_INIT
MCA_BASE_COMPONENT_INIT(opal, smsc, regcma)
#endif
