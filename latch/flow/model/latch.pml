/* SPDX-License-Identifier: Apache-2.0
 *
 * Model of one gated connection: kernel hold, gate, agent, and an adversary who
 * owns the network. Checked exhaustively by spin (see model_test.go). States of
 * the gate have the names of latch/flow.State; rules are those of the design
 * page, part 6.
 *
 * What the adversary may do: send to the client, in any order and number up to
 * BUDGET, the genuine ServerHello or one of its own for the same place in the
 * TCP stream; make TCP drop a segment that the gate's copy shows (bad checksum,
 * old timestamp: a decoy); withhold anything; replay evidence of another
 * session; let the agent's evidence come early, late or never. What it cannot
 * do: make the agent vouch for a share that the approved server did not make.
 *
 * Promise checked: the door opens only if the ServerHello that the client's TCP
 * took is the one that the evidence proves (assert in Kernel). Liveness: every
 * connection is decided (no invalid end state, and the ltl formula `decided`).
 *
 * Broken on purpose with -DNOCOUNT (the count of segments is not compared),
 * -DCOUNTFIRST (count read before rcv_nxt), -DNODIFFER (differing copies are
 * not refused), -DNOBINDER (any evidence will do): each must be found.
 */
#ifndef BUDGET
#define BUDGET 3
#endif
#define TRIES 3 /* releases that the gate gives out at most */

#define NONE 0
#define GENUINE 1 /* the share that the approved server made for this session */
#define FORGED 2  /* the adversary's own */
#define OTHER 3   /* proved by evidence, but for another session */

mtype = { Hello, Answer, Evidence, Proved, Releasing, Refused, Open };

/* kernel */
byte count = 0;     /* inbound segments counted before TCP sees them */
byte taken = NONE;  /* what the client's TCP took for the ServerHello: the first that it accepts */
bool opened = false;
chan ring = [BUDGET] of { byte };          /* copies for the gate */
chan kick = [1] of { byte };               /* release: number examined */
chan told = [1] of { bool };               /* what became of it: released or retry */

/* evidence channel, adversary in between */
chan proof = [2] of { byte };

mtype gate = Hello;
bool refused = false;

/* One inbound segment: copied and counted first, judged by TCP afterwards. Several may be on their way at once. */
proctype Segment(byte share; bool decoy)
{
	atomic { count++; ring!share }
	/* here another CPU, the gate, or a kick may run */
	if
	:: decoy                            /* TCP drops it */
	:: !decoy && taken == NONE -> taken = share
	:: !decoy && taken != NONE          /* duplicate: the first one stays */
	fi
}

active proctype Adversary()
{
	byte left = BUDGET;
	gate != Hello -> /* it answers a ClientHello */
	do
	:: left > 0 -> left--; run Segment(GENUINE, false)
	:: left > 0 -> left--; run Segment(GENUINE, true)
	:: left > 0 -> left--; run Segment(FORGED, false)
	:: left > 0 -> left--; run Segment(FORGED, true)
	:: break
	od
}

/* The agent proves what it observed: the genuine share, once announced. The adversary may replay another session's evidence, or drop all. */
active proctype Agent()
{
	gate != Hello -> 
	if
	:: proof!GENUINE
	:: proof!OTHER
	:: proof!OTHER; proof!GENUINE
	:: skip /* lost */
	fi
}

active proctype Gate()
{
	byte examined = 0, share = NONE, s, evidence = NONE, tries = 0;
	bool differ = false, ok;
	gate = Answer; /* the ClientHello was let out, copied and announced */
end_loop:
	do
	:: (gate == Answer || gate == Evidence) && nempty(proof) ->
		proof?s;
		if
		:: evidence == NONE -> evidence = s
		:: else -> evidence = s
		fi
	:: (gate == Answer || gate == Evidence || gate == Proved) && nempty(ring) -> /* drain and examine */
drain:		ring?s; examined++;
		if
		:: share == NONE -> share = s
		:: share != NONE && share != s -> differ = true
		:: else
		fi;
		s = NONE;
#ifndef NODIFFER
		if
		:: differ -> gate = Refused; refused = true; break
		:: else
		fi;
#endif
		if
		:: gate == Answer -> gate = Evidence
		:: else
		fi
	:: gate == Evidence && evidence != NONE && share != NONE ->
#ifdef NOBINDER
		gate = Proved
#else
		if
		:: evidence == share -> gate = Proved
		:: evidence != share && empty(proof) -> gate = Refused; refused = true; break
		:: evidence != share && nempty(proof) -> evidence = NONE
		fi
#endif
	:: gate == Proved && tries < TRIES && empty(ring) -> tries++; gate = Releasing; kick!examined
	:: gate == Releasing -> told?ok;
		if
		:: ok -> gate = Open; break
		:: else -> gate = Proved /* retry: drain, examine, release again */
		fi
	:: gate == Proved && tries == TRIES -> gate = Refused; refused = true; break
	/* the deadline may strike at any time but in the middle of a release */
	:: gate != Releasing -> gate = Refused; refused = true; break
	od
}

/* The ingress program on a kick [rule a]: rcv_nxt first, then the count. */
active proctype Kernel()
{
	byte n, seen;
	bool in;
end_idle:
	do
	:: kick?n ->
#ifdef COUNTFIRST
		seen = count;
		in = (taken != NONE);
#else
		in = (taken != NONE);
		seen = count;
#endif
#ifdef NOCOUNT
		seen = n;
#endif
		if
		:: in && seen == n ->
			opened = true;
			assert(taken == GENUINE);
			told!true
		:: else -> told!false
		fi
	od
}

/* Every connection is opened or refused in the end, if processes get their turn. */
ltl decided { <> (gate == Open || refused) }
