/* Zeroed memory of whole huge pages. A header, because mmap and its flags are macros of the system. */
#ifndef KERNBENCH_HUGE_PAGES_H
#define KERNBENCH_HUGE_PAGES_H
#include <stddef.h>
#include <stdint.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define KB_HUGE_PAGE ((size_t)2 << 20)      /* [B] of x86-64 and of most ARM systems; elsewhere, pages are only aligned */

/* `nbytes`, a multiple of the size of a page, from an address that is a multiple of KB_HUGE_PAGE. NULL: there are none. The system
 * uses huge pages if it has some free; else the memory has small pages, which is slower and otherwise the same. */
static inline void *kb_map_huge(size_t nbytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    size_t before, all = nbytes + KB_HUGE_PAGE;
    char *at = (char *)mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == (char *)MAP_FAILED) return NULL;
    before = (KB_HUGE_PAGE - (uintptr_t)at % KB_HUGE_PAGE) % KB_HUGE_PAGE;
    if (before) munmap(at, before);
    munmap(at + before + nbytes, all - nbytes - before);
    madvise(at + before, nbytes, MADV_HUGEPAGE);
    return at + before;
#else
    (void)nbytes;
    return NULL;
#endif
}

static inline void kb_unmap(void *at, size_t nbytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    munmap(at, nbytes);
#else
    (void)at;
    (void)nbytes;
#endif
}
#endif
