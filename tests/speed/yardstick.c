/* The least that a step of the core must do: flows that earn their share and ask for lines, a TE and a VE that stream over lines,
 * ports of 64 banks taken in turns. Membership stays, nothing ends, and nobody looks. Compiled and timed by skip_rows.py. */
#include <stdint.h>
#include <stdlib.h>

enum { LINE = 64, BANKS = 64, MOST_FLOWS = 16, ENGINES = 2, STREAMS = 3, MOST_PORTS = 8 };

struct flow { int64_t carry; uint64_t bank; };
struct engine { int64_t at[STREAMS]; uint64_t need; };
struct pe {
    struct flow flow[MOST_FLOWS];
    struct engine engine[ENGINES];
    uint64_t granted[BANKS];
    int64_t denials;
};

/* Take a port of each wanted bank that has one left; the banks that were granted. */
static uint64_t take(uint64_t *taken, int ports, uint64_t want)
{
    uint64_t left = want;
    for (int p = 0; p < ports && left; p++) {
        uint64_t full = taken[p] & left;
        taken[p] |= left;
        left = full;
    }
    return want & ~left;
}

static void step_flow(struct pe *x, struct flow *f, uint64_t *taken, int ports, int64_t num, int64_t cost)
{
    f->carry += num;
    if (f->carry < cost)
        return;
    if (take(taken, ports, 1ull << f->bank)) {
        x->granted[f->bank]++;
        f->carry -= cost;
        f->bank = (f->bank + 1) % BANKS;
    } else
        x->denials++;
}

static void step_engine(struct pe *x, struct engine *e, uint64_t *taken, int ports, const int64_t *per_cycle)
{
    uint64_t got;
    if (!e->need)
        for (int k = 0; k < STREAMS; k++) {
            int64_t before = (e->at[k] + LINE - 1) / LINE;
            e->at[k] += per_cycle[k];
            if ((e->at[k] + LINE - 1) / LINE > before)
                e->need |= 1ull << before % BANKS;
        }
    got = take(taken, ports, e->need);
    e->need &= ~got;
    x->denials += e->need != 0;
    for (; got; got &= got - 1)
        x->granted[__builtin_ctzll(got)]++;
}

/* `cycles` of `pes` PEs, each with `flows` flows of num/den bytes a cycle and `streams[6]` bytes a cycle of a TE and a VE; a sum that
 * depends on all of it. */
int64_t yardstick(int64_t pes, int64_t cycles, int64_t flows, int64_t num, int64_t den, const int64_t *streams, int ports)
{
    struct pe *all = calloc(pes, sizeof *all);
    int64_t sum = 0, requesters = flows + ENGINES;
    if (!all || flows > MOST_FLOWS || ports > MOST_PORTS)
        return -1;
    for (int64_t i = 0; i < pes; i++) {
        for (int64_t k = 0; k < flows; k++)
            all[i].flow[k].bank = (7 * k + i) % BANKS;
        for (int e = 0; e < ENGINES; e++)
            for (int k = 0; k < STREAMS; k++)
                all[i].engine[e].at[k] = (16 * k + 37 * e) * LINE;
    }
    for (int64_t now = 0; now < cycles; now++)
        for (int64_t i = 0; i < pes; i++) {
            struct pe *x = &all[i];
            uint64_t taken[MOST_PORTS] = {0};
            int64_t turn = now % requesters;
            for (int64_t k = 0; k < requesters; k++) {
                int64_t who = turn + k < requesters ? turn + k : turn + k - requesters;
                if (who < flows)
                    step_flow(x, &x->flow[who], taken, ports, num, den * LINE);
                else
                    step_engine(x, &x->engine[who - flows], taken, ports, streams + STREAMS * (who - flows));
            }
        }
    for (int64_t i = 0; i < pes; i++) {
        sum += all[i].denials;
        for (int k = 0; k < BANKS; k++)
            sum += all[i].granted[k];
    }
    free(all);
    return sum;
}
