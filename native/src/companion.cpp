#include "mercer/companion.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace mercer {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPatience{2}, kRest{500}, kLongestRest{16000};
constexpr int kPauses = 256;  // between looks at the clock, and before the processor is given away
constexpr uint32_t kEnd = ~uint32_t{0};

Clock::rep now() { return Clock::now().time_since_epoch().count(); }
constexpr Clock::rep ticks(Clock::duration time) { return time.count(); }

// A companion that shares its processor with somebody else comes and goes, and while it is gone nothing goes on. None
// is asked to come for a while then, and for twice as long where the next one does the same soon after.
std::atomic<Clock::rep> rests_until{0}, rest{0};

void begin_rest() {
    const Clock::rep time = now(), last = rest.load();
    if (time < rests_until.load()) return;  // another one has begun it
    const bool is_soon = last > 0 && time - rests_until.load() < last;
    rest.store(is_soon ? std::min(2 * last, ticks(kLongestRest)) : ticks(kRest));
    rests_until.store(time + rest.load());
}

// A moment's rest between two looks at a number.
void pause() {
#if defined(__x86_64__) || defined(__i386__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

}  // namespace

Companion::Companion(bool is_wanted, Work work, void* context) : work_(work), context_(context) {
    if (is_wanted && now() >= rests_until.load()) aside_.emplace(serve, this);
}

Companion::~Companion() { dismiss(); }

bool Companion::is_here() const { return is_here_.load(std::memory_order_acquire); }

void Companion::ask() { asked_.number.store(++n_asked_, std::memory_order_release); }

const void* Companion::answer() {
    if (!has_answered_soon()) {
        while (!has_answered()) std::this_thread::yield();
        dismiss();
        begin_rest();
    }
    return answered_.content;
}

void Companion::serve(void* context, int64_t) { static_cast<Companion*>(context)->stay(); }

void Companion::stay() {
    is_here_.store(true, std::memory_order_release);
    for (uint32_t seen = 0;;) {
        uint32_t number = asked_.number.load(std::memory_order_acquire);
        for (int i = 0; number == seen; number = asked_.number.load(std::memory_order_acquire), ++i) {
            pause();
            if (i % kPauses == kPauses - 1) std::this_thread::yield();
        }
        if (number == kEnd) return;
        work_(context_, asked_.content, answered_.content);
        answered_.number.store(seen = number, std::memory_order_release);
    }
}

bool Companion::has_answered() const { return answered_.number.load(std::memory_order_acquire) == n_asked_; }

bool Companion::has_answered_soon() const {
    Clock::rep until = 0;
    for (int i = 1; !has_answered(); ++i) {
        pause();
        if (i % kPauses != 0) continue;
        if (until == 0) until = now() + ticks(kPatience);
        if (now() >= until) return false;
    }
    return true;
}

void Companion::dismiss() {
    asked_.number.store(kEnd, std::memory_order_release);
    aside_.reset();
    is_here_.store(false, std::memory_order_relaxed);
}

}  // namespace mercer
