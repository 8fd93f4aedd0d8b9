/* Preloaded into a server by disk_writes_bench.py: while the first byte of the file $STALL_SWITCH is not 0, every
 * $STALL_EVERY-th pwritev of the process takes $STALL_MS longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static const volatile char* is_on;
static long every = 50;
static long stall_ms = 500;
static atomic_long count;

__attribute__((constructor)) static void begin(void) {
  if (getenv("STALL_EVERY")) every = atol(getenv("STALL_EVERY"));
  if (getenv("STALL_MS")) stall_ms = atol(getenv("STALL_MS"));
  const char* path = getenv("STALL_SWITCH");
  const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void* page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
  if (page != MAP_FAILED) is_on = page;
  close(file);
}

static void stall(void) {
  if (is_on == NULL || *is_on == 0 || atomic_fetch_add(&count, 1) % every != 0) return;
  struct timespec left = {stall_ms / 1000, stall_ms % 1000 * 1000000};
  while (nanosleep(&left, &left) != 0) {
  }
}

ssize_t pwritev(int file, const struct iovec* pieces, int pieces_count, off_t offset) {
  static ssize_t (*real)(int, const struct iovec*, int, off_t);
  if (real == NULL) real = dlsym(RTLD_NEXT, "pwritev");
  stall();
  return real(file, pieces, pieces_count, offset);
}

ssize_t pwritev64(int file, const struct iovec* pieces, int pieces_count, off64_t offset) {
  return pwritev(file, pieces, pieces_count, offset);
}
