/*
 * Unit tests of allocator_dsofirst_elf.c: a text out of a plugin file, whatever the file is.
 * smx-timeout: check=60 long=300
 *
 * The image is made here, byte by byte, and lies so that the byte behind its end cannot be touched:
 * a read beyond the file kills the program.
 */

#include "opal_config.h"

#include "allocator_dsofirst_elf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf_image.h"
#include "rng.h"
#include "tap.h"

static char *room;       /* pages, the last one without access */
static size_t room_size; /* bytes before that page */

/* Size rounded down to what keeps the image aligned as a mapped file is, at the end of the room. */
static const void *at_the_end(const void *bytes, size_t size)
{
    size_t start = (room_size - size) & ~(size_t) 15;

    memset(room, 0xee, room_size);
    memcpy(room + start, bytes, size);
    /* what lies between the end of the image and the guard must not be taken for a part of it */
    return room + start;
}

static allocator_dsofirst_elf_result_t ask(const struct image *image, size_t size, char *text,
                                           size_t text_size)
{
    return allocator_dsofirst_elf_text(at_the_end(image, size), size, SYMBOL, text, text_size);
}

static void sound_files(void)
{
    struct image image;
    char text[16];

    make_image(&image);
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_OK,
             "a symbol that is there is found");
    tap_ok(0 == strcmp(text, SERIES), "its text is read");
    tap_same(ask(&image, sizeof(image), text, 3), ALLOCATOR_DSOFIRST_ELF_OK,
             "a text longer than the room for it is no error");
    tap_ok(0 == strcmp(text, "5."), "it is cut and terminated");
    memset(image.series, 'x', sizeof(image.series));
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_OK,
             "a text that ends with the file instead of a zero is no error");
    tap_ok(0 == strcmp(text, "xxxxxxxx"), "it ends where the file ends");

    make_image(&image);
    image.symbol[2].st_shndx = SHN_UNDEF;
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_NO_SYMBOL,
             "a symbol that the file wants from elsewhere is not its own");
    tap_ok('\0' == text[0], "no text without a symbol");
    make_image(&image);
    image.names[sizeof(OTHER) + sizeof(SYMBOL)] = 'x';
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_NO_SYMBOL,
             "a name that only begins like the wanted one is another name");
}

static void other_files(void)
{
    struct image image;
    char text[16];

    make_image(&image);
    tap_same(ask(&image, 0, text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_NOT_ELF,
             "an empty file is no shared object");
    image.head.e_ident[0] = '#';
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_NOT_ELF,
             "a script is no shared object");
    make_image(&image);
    image.head.e_type = ET_REL;
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_NOT_ELF,
             "an object file is no shared object");
    make_image(&image);
    image.head.e_ident[EI_CLASS] ^= ELFCLASS32 ^ ELFCLASS64;
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_NOT_ELF,
             "a shared object of another word size is none");
    make_image(&image);
    image.head.e_ident[EI_DATA] ^= ELFDATA2LSB ^ ELFDATA2MSB;
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_NOT_ELF,
             "a shared object of another byte order is none");
    make_image(&image);
    image.segment[0].p_type = PT_NULL;
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_TRUNCATED,
             "a file with nothing to load is damaged");
    make_image(&image);
    image.segment[0].p_filesz += 1;
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_TRUNCATED,
             "a segment one byte longer than the file is damage");
    make_image(&image);
    image.segment[0].p_offset = (ElfW(Off)) - 8;
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_TRUNCATED,
             "a segment whose end wraps around is damage");
    make_image(&image);
    image.symbol[2].st_value = BASE + sizeof(image);
    tap_same(ask(&image, sizeof(image), text, sizeof(text)), ALLOCATOR_DSOFIRST_ELF_TRUNCATED,
             "a symbol beyond what the file fills is damage");
}

/* No cut of the file is taken for the whole. */
static void cut_files(void)
{
    struct image image;
    char text[16];
    size_t good = 0, size;

    make_image(&image);
    for (size = 0; sizeof(image) > size; size++) {
        good += ALLOCATOR_DSOFIRST_ELF_OK == ask(&image, size, text, sizeof(text));
    }
    tap_same((long long) good, 0, "a file cut at any of %zu places is refused", size);
}

/* Whatever the bytes are: an answer, and no read outside (the guard page and the sanitizers watch). */
static void random_damage(void)
{
    const long rounds = tap_long() ? 3000000 : 200000;
    long answers[4] = {0, 0, 0, 0};
    rng_t rng = rng_split(tap_seed(), 0);
    char text[16];

    for (long round = 0; rounds > round; round++) {
        struct image image;
        make_image(&image);
        for (uint64_t left = 1 + rng_below(&rng, 6); 0 < left; left--) {
            ((unsigned char *) &image)[rng_below(&rng, sizeof(image))] = (unsigned char) rng_next(
                &rng);
        }
        size_t size = 0 == rng_below(&rng, 4) ? (size_t) rng_below(&rng, sizeof(image) + 1)
                                              : sizeof(image);
        allocator_dsofirst_elf_result_t answer = ask(&image, size, text, sizeof(text));
        if (0 <= (int) answer && 4 > (int) answer && sizeof(text) > strnlen(text, sizeof(text))) {
            answers[answer]++;
        }
    }
    tap_same(answers[0] + answers[1] + answers[2] + answers[3], rounds,
             "%ld damaged files: each gets an answer", rounds);
    tap_ok(0 < answers[0] && 0 < answers[1] && 0 < answers[2] && 0 < answers[3],
           "the damage reached every answer (%ld %ld %ld %ld)", answers[0], answers[1], answers[2],
           answers[3]);
}

int main(void)
{
    const size_t page = (size_t) sysconf(_SC_PAGESIZE);

    tap_deadline(250);
    room_size = 2 * page;
    room = mmap(NULL, room_size + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == room || 0 != mprotect(room + room_size, page, PROT_NONE)) {
        tap_skip_all("no memory");
    }
    sound_files();
    other_files();
    cut_files();
    random_damage();
    return tap_done();
}
