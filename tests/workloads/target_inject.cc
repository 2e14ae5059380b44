// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// A program that detects any interference: threads in the allocator, the loader, the unwinder, signal
// handlers, locks and every kind of waiting system call, each of which compares what it gets with what it must
// get. Prints "ready", runs until its stdin ends, then prints what it found:
//   loaded N rounds R faults F
// and for each kind of fault one line "fault KIND COUNT".
#include <atomic>
#include <cerrno>
#include <cfenv>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" int inject_loaded;
int inject_loaded;

namespace {

std::atomic<bool> stop;
std::atomic<uint64_t> rounds;

enum Fault { WRONG_SUM, WRONG_ERRNO, SAW_EINTR, WRONG_STACK, WRONG_MASK, TOO_EARLY, WRONG_ROUNDING, FAULTS };
const char *const fault_names[] = {"sum", "errno", "eintr", "stack", "mask", "early", "rounding"};
std::atomic<uint64_t> faults[FAULTS];

void fault(Fault f) { faults[f]++; }

// The error of a call that was not to fail.
void failed() { fault(errno == EINTR ? SAW_EINTR : WRONG_ERRNO); }

uint64_t now_ns() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return uint64_t(ts.tv_sec) * 1000000000 + uint64_t(ts.tv_nsec);
}

void check_state(uint64_t mask, void *altstack) {
  sigset_t set;
  stack_t ss;
  uint64_t word = 0;
  pthread_sigmask(SIG_SETMASK, nullptr, &set);
  memcpy(&word, &set, sizeof(word));
  if (word != mask)
    fault(WRONG_MASK);
  sigaltstack(nullptr, &ss);
  if (altstack && ss.ss_sp != altstack)
    fault(WRONG_STACK);
}

// Vector and scalar arithmetic, in a rounding of its own, with errno set: all values stay in registers for long.
void compute() {
  alignas(32) static thread_local char stack[65536];
  stack_t ss{};
  ss.ss_sp = stack;
  ss.ss_size = sizeof(stack);
  sigaltstack(&ss, nullptr);
  sigset_t mine;
  sigemptyset(&mine);
  sigaddset(&mine, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &mine, nullptr);
  fesetround(FE_DOWNWARD);
  uint64_t first = 0;
  for (int k = 0; !stop; k++) {
    double a[64], sum = 0;
    errno = 4000 + k % 7;
    for (int i = 0; i < 64; i++)
      a[i] = 1.0 / (i + 3);
    for (int n = 0; n < 2000; n++)
      for (int i = 0; i < 64; i++)
        a[i] = a[i] * 1.0000001 + 1e-9 / (i + 1);
    long double x = 0;
    for (double d : a) {
      sum += d;
      x += d / 3.0L;
    }
    if (errno != 4000 + k % 7)
      fault(WRONG_ERRNO);
    uint64_t bits;
    sum += double(x);
    memcpy(&bits, &sum, sizeof(bits));
    if (!first)
      first = bits;
    if (bits != first)
      fault(WRONG_SUM);
    if (fegetround() != FE_DOWNWARD)
      fault(WRONG_ROUNDING);
    check_state(1ull << (SIGUSR2 - 1), stack);
    rounds++;
  }
}

void allocate(unsigned seed) {
  std::vector<std::vector<unsigned char>> held(64);
  while (!stop) {
    seed = seed * 1103515245 + 12345;
    auto &v = held[seed >> 16 & 63];
    for (unsigned char c : v)
      if (c != v[0])
        fault(WRONG_SUM);
    v = std::vector<unsigned char>(1 + (seed >> 8) % 40000, (unsigned char)(seed >> 4));
    rounds++;
  }
}

int count_objects(dl_phdr_info *, size_t, void *arg) {
  ++*static_cast<int *>(arg);
  return 0;
}

void load() {
  while (!stop) {
    void *h = dlopen("libm.so.6", RTLD_NOW);
    if (!h || !dlsym(h, "cos") || dlsym(h, "no_such_function") || !dlerror())
      fault(WRONG_SUM);
    if (h)
      dlclose(h);
    int n = 0;
    dl_iterate_phdr(count_objects, &n);
    if (n < 4)
      fault(WRONG_SUM);
    usleep(200);
    rounds++;
  }
}

const char thrown_text[] = "a text that is too long for the object itself, so it is allocated";

__attribute__((noinline)) int thrower(int depth) {
  if (!depth)
    throw std::runtime_error(thrown_text);
  std::string held(size_t(depth) * 20, 'x');
  return thrower(depth - 1) + int(held.size());
}

void throw_and_catch() {
  for (int k = 0; !stop; k++) {
    try {
      thrower(k % 20);
      fault(WRONG_SUM);
    } catch (const std::exception &e) {
      if (strcmp(e.what(), thrown_text))
        fault(WRONG_SUM);
    }
    rounds++;
  }
}

volatile sig_atomic_t handled;
void handler(int) {
  int saved = errno;
  volatile double x = 1;
  for (int i = 0; i < 3000; i++)
    x = x * 1.0001;
  handled = handled + 1;
  errno = saved;
}

void raise_signals() {
  for (int k = 0; !stop; k++) {
    int before = handled;
    pthread_kill(pthread_self(), SIGUSR1);
    if (handled == before)
      fault(WRONG_SUM);
    void *p = malloc(1000);
    free(p);
    rounds++;
  }
}

std::mutex lock;
std::condition_variable turn_changed;
int turn;

void take_turns(int me) {
  while (!stop) {
    std::unique_lock<std::mutex> held(lock);
    turn_changed.wait_for(held, std::chrono::milliseconds(50), [me] { return turn == me || stop; });
    if (turn == me)
      turn = !me;
    turn_changed.notify_all();
    rounds++;
  }
}

// Waits of exactly this long, by each call that waits; none may end early or with EINTR.
void wait_in_calls(int kind) {
  int fds[2], pair[2], ep = epoll_create1(0);
  sem_t sem;
  const int ms = 20;
  if (pipe(fds) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || sem_init(&sem, 0, 0))
    abort();
  epoll_event ev{};
  ev.events = EPOLLIN;
  epoll_ctl(ep, EPOLL_CTL_ADD, fds[0], &ev);
  timeval tv = {0, ms * 1000};
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
  while (!stop) {
    uint64_t begin = now_ns();
    timespec ts = {0, ms * 1000000}, abs;
    pollfd pfd = {fds[0], POLLIN, 0};
    int rc = 0, want = 0;
    char c;
    switch (kind) {
    case 0:
      rc = nanosleep(&ts, nullptr);
      break;
    case 1:
      rc = poll(&pfd, 1, ms);
      break;
    case 2:
      rc = epoll_wait(ep, &ev, 1, ms);
      break;
    case 3:
      rc = select(0, nullptr, nullptr, nullptr, &(tv = {0, ms * 1000}));
      break;
    case 4:
      clock_gettime(CLOCK_REALTIME, &abs);
      abs.tv_nsec += ms * 1000000;
      abs.tv_sec += abs.tv_nsec / 1000000000;
      abs.tv_nsec %= 1000000000;
      rc = sem_timedwait(&sem, &abs);
      want = ETIMEDOUT;
      break;
    case 5:
      rc = int(recv(pair[0], &c, 1, 0));
      want = EAGAIN;
      break;
    case 6: {
      sigset_t set;
      sigemptyset(&set);
      sigaddset(&set, SIGUSR2);
      rc = sigtimedwait(&set, nullptr, &ts);
      want = EAGAIN;
      break;
    }
    case 7: {
      int word = 5;
      rc = int(syscall(SYS_futex, &word, 128, 5, &ts, nullptr, 0)); // a wait with a relative limit
      want = ETIMEDOUT;
      break;
    }
    default:
      rc = ppoll(&pfd, 1, &ts, nullptr);
    }
    if (want ? rc != -1 || errno != want : rc != 0)
      failed();
    if (now_ns() - begin < uint64_t(ms) * 1000000 - 1000000)
      fault(TOO_EARLY);
    rounds++;
  }
}

// Waits without a limit, ended by another thread.
void wait_for_ever(int kind, int from, int to) {
  int ep = epoll_create1(0);
  epoll_event ev{};
  ev.events = EPOLLIN;
  epoll_ctl(ep, EPOLL_CTL_ADD, from, &ev);
  while (!stop) {
    pollfd pfd = {from, POLLIN, 0};
    char c = 'x';
    if (kind == 1 && poll(&pfd, 1, -1) != 1)
      failed();
    if (kind == 2 && epoll_wait(ep, &ev, 1, -1) != 1)
      failed();
    if (read(from, &c, 1) != 1)
      failed();
    usleep(3000);
    if (write(to, &c, 1) != 1)
      failed();
    rounds++;
  }
}

void spawn_children() {
  while (!stop) {
    pid_t pid = fork();
    int status;
    if (!pid)
      _exit(7);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 7)
      failed();
    std::thread([] { volatile int x = 0; for (int i = 0; i < 1000; i++) x = x + i; }).join();
    usleep(5000);
    rounds++;
  }
}

} // namespace

int main() {
  std::vector<std::thread> threads;
  struct sigaction sa{};
  int ring[2][2];
  sa.sa_handler = handler;
  sa.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &sa, nullptr);
  sigset_t block;
  sigemptyset(&block);
  sigaddset(&block, SIGUSR2);
  for (int i = 0; i < 2; i++)
    threads.emplace_back(compute);
  for (unsigned i = 0; i < 3; i++)
    threads.emplace_back(allocate, i);
  threads.emplace_back(load);
  threads.emplace_back(throw_and_catch);
  threads.emplace_back(raise_signals);
  threads.emplace_back(take_turns, 0);
  threads.emplace_back(take_turns, 1);
  threads.emplace_back(spawn_children);
  pthread_sigmask(SIG_BLOCK, &block, nullptr); // for sigtimedwait
  for (int i = 0; i < 9; i++)
    threads.emplace_back(wait_in_calls, i);
  pthread_sigmask(SIG_UNBLOCK, &block, nullptr);
  if (pipe(ring[0]) || pipe(ring[1]) || write(ring[0][1], "x", 1) != 1)
    return 1;
  for (int i = 0; i < 4; i++)
    threads.emplace_back(wait_for_ever, i % 3, ring[i & 1][0], ring[~i & 1][1]);
  puts("ready");
  fflush(stdout);
  for (pollfd in = {0, POLLIN, 0}; !in.revents;) // a wait that a tracer must leave alone: other threads have to do
    if (poll(&in, 1, 100) < 0)
      failed();
  stop = true;
  for (int i = 0; i < 8; i++)
    if (write(ring[0][1], "xxxx", 4) + write(ring[1][1], "xxxx", 4) != 8)
      failed();
  turn_changed.notify_all();
  for (auto &t : threads)
    t.join();
  uint64_t all = 0;
  for (int i = 0; i < FAULTS; i++) {
    all += faults[i];
    if (faults[i])
      printf("fault %s %lu\n", fault_names[i], (unsigned long)faults[i]);
  }
  printf("loaded %d rounds %lu faults %lu\n", inject_loaded, (unsigned long)rounds, (unsigned long)all);
  return all != 0;
}
