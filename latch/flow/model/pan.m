#define rand	pan_rand
#define pthread_equal(a,b)	((a)==(b))
#if defined(HAS_CODE) && defined(VERBOSE)
	#ifdef BFS_PAR
		bfs_printf("Pr: %d Tr: %d\n", II, t->forw);
	#else
		cpu_printf("Pr: %d Tr: %d\n", II, t->forw);
	#endif
#endif
	switch (t->forw) {
	default: Uerror("bad forward move");
	case 0:	/* if without executable clauses */
		continue;
	case 1: /* generic 'goto' or 'skip' */
		IfNotBlocked
		_m = 3; goto P999;
	case 2: /* generic 'else' */
		IfNotBlocked
		if (trpt->o_pm&1) continue;
		_m = 3; goto P999;

		 /* CLAIM decided */
	case 3: // STATE 1 - _spin_nvr.tmp:4 - [(!(((gate==Open)||refused)))] (0:0:0 - 1)
		
#if defined(VERI) && !defined(NP)
#if NCLAIMS>1
		{	static int reported1 = 0;
			if (verbose && !reported1)
			{	int nn = (int) ((Pclaim *)pptr(0))->_n;
				printf("depth %ld: Claim %s (%d), state %d (line %d)\n",
					depth, procname[spin_c_typ[nn]], nn, (int) ((Pclaim *)pptr(0))->_p, src_claim[ (int) ((Pclaim *)pptr(0))->_p ]);
				reported1 = 1;
				fflush(stdout);
		}	}
#else
		{	static int reported1 = 0;
			if (verbose && !reported1)
			{	printf("depth %d: Claim, state %d (line %d)\n",
					(int) depth, (int) ((Pclaim *)pptr(0))->_p, src_claim[ (int) ((Pclaim *)pptr(0))->_p ]);
				reported1 = 1;
				fflush(stdout);
		}	}
#endif
#endif
		reached[5][1] = 1;
		if (!( !(((now.gate==1)||((int)now.refused)))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 4: // STATE 6 - _spin_nvr.tmp:6 - [-end-] (0:0:0 - 1)
		
#if defined(VERI) && !defined(NP)
#if NCLAIMS>1
		{	static int reported6 = 0;
			if (verbose && !reported6)
			{	int nn = (int) ((Pclaim *)pptr(0))->_n;
				printf("depth %ld: Claim %s (%d), state %d (line %d)\n",
					depth, procname[spin_c_typ[nn]], nn, (int) ((Pclaim *)pptr(0))->_p, src_claim[ (int) ((Pclaim *)pptr(0))->_p ]);
				reported6 = 1;
				fflush(stdout);
		}	}
#else
		{	static int reported6 = 0;
			if (verbose && !reported6)
			{	printf("depth %d: Claim, state %d (line %d)\n",
					(int) depth, (int) ((Pclaim *)pptr(0))->_p, src_claim[ (int) ((Pclaim *)pptr(0))->_p ]);
				reported6 = 1;
				fflush(stdout);
		}	}
#endif
#endif
		reached[5][6] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */

		 /* PROC Kernel */
	case 5: // STATE 1 - latch.pml:146 - [kick?n] (0:0:1 - 1)
		reached[4][1] = 1;
		if (q_len(now.kick) == 0) continue;

		XX=1;
		(trpt+1)->bup.oval = ((int)((P4 *)_this)->n);
		;
		((P4 *)_this)->n = qrecv(now.kick, XX-1, 0, 1);
#ifdef VAR_RANGES
		logval("Kernel:n", ((int)((P4 *)_this)->n));
#endif
		;
		
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[32];
			sprintf(simvals, "%d?", now.kick);
		sprintf(simtmp, "%d", ((int)((P4 *)_this)->n)); strcat(simvals, simtmp);		}
#endif
		;
		_m = 4; goto P999; /* 0 */
	case 6: // STATE 2 - latch.pml:151 - [in = (taken!=0)] (0:0:1 - 1)
		IfNotBlocked
		reached[4][2] = 1;
		(trpt+1)->bup.oval = ((int)((P4 *)_this)->in);
		((P4 *)_this)->in = (((int)now.taken)!=0);
#ifdef VAR_RANGES
		logval("Kernel:in", ((int)((P4 *)_this)->in));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 7: // STATE 3 - latch.pml:152 - [seen = count] (0:0:1 - 1)
		IfNotBlocked
		reached[4][3] = 1;
		(trpt+1)->bup.oval = ((int)((P4 *)_this)->seen);
		((P4 *)_this)->seen = ((int)now.count);
#ifdef VAR_RANGES
		logval("Kernel:seen", ((int)((P4 *)_this)->seen));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 8: // STATE 4 - latch.pml:158 - [((in&&(seen==n)))] (0:0:3 - 1)
		IfNotBlocked
		reached[4][4] = 1;
		if (!((((int)((P4 *)_this)->in)&&(((int)((P4 *)_this)->seen)==((int)((P4 *)_this)->n)))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: in */  (trpt+1)->bup.ovals = grab_ints(3);
		(trpt+1)->bup.ovals[0] = ((P4 *)_this)->in;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P4 *)_this)->in = 0;
		if (TstOnly) return 1; /* TT */
		/* dead 1: seen */  (trpt+1)->bup.ovals[1] = ((P4 *)_this)->seen;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P4 *)_this)->seen = 0;
		if (TstOnly) return 1; /* TT */
		/* dead 1: n */  (trpt+1)->bup.ovals[2] = ((P4 *)_this)->n;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P4 *)_this)->n = 0;
		_m = 3; goto P999; /* 0 */
	case 9: // STATE 5 - latch.pml:159 - [opened = 1] (0:0:1 - 1)
		IfNotBlocked
		reached[4][5] = 1;
		(trpt+1)->bup.oval = ((int)opened);
		opened = 1;
#ifdef VAR_RANGES
		logval("opened", ((int)opened));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 10: // STATE 6 - latch.pml:160 - [assert((taken==1))] (0:0:0 - 1)
		IfNotBlocked
		reached[4][6] = 1;
		spin_assert((((int)now.taken)==1), "(taken==1)", II, tt, t);
		_m = 3; goto P999; /* 0 */
	case 11: // STATE 7 - latch.pml:161 - [told!1] (0:0:0 - 1)
		IfNotBlocked
		reached[4][7] = 1;
		if (q_full(now.told))
			continue;
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[64];
			sprintf(simvals, "%d!", now.told);
		sprintf(simtmp, "%d", 1); strcat(simvals, simtmp);		}
#endif
		
		qsend(now.told, 0, 1, 1);
		_m = 2; goto P999; /* 0 */
	case 12: // STATE 9 - latch.pml:162 - [told!0] (0:0:0 - 1)
		IfNotBlocked
		reached[4][9] = 1;
		if (q_full(now.told))
			continue;
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[64];
			sprintf(simvals, "%d!", now.told);
		sprintf(simtmp, "%d", 0); strcat(simvals, simtmp);		}
#endif
		
		qsend(now.told, 0, 0, 1);
		_m = 2; goto P999; /* 0 */
	case 13: // STATE 15 - latch.pml:165 - [-end-] (0:0:0 - 1)
		IfNotBlocked
		reached[4][15] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */

		 /* PROC Gate */
	case 14: // STATE 1 - latch.pml:90 - [gate = Answer] (0:0:1 - 1)
		IfNotBlocked
		reached[3][1] = 1;
		(trpt+1)->bup.oval = now.gate;
		now.gate = 6;
#ifdef VAR_RANGES
		logval("gate", now.gate);
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 15: // STATE 2 - latch.pml:93 - [((((gate==Answer)||(gate==Evidence))&&nempty(proof)))] (0:0:0 - 1)
		IfNotBlocked
		reached[3][2] = 1;
		if (!((((now.gate==6)||(now.gate==5))&&(q_len(now.proof)>0))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 16: // STATE 3 - latch.pml:94 - [proof?s] (0:0:1 - 1)
		reached[3][3] = 1;
		if (q_len(now.proof) == 0) continue;

		XX=1;
		(trpt+1)->bup.oval = ((int)((P3 *)_this)->s);
		;
		((P3 *)_this)->s = qrecv(now.proof, XX-1, 0, 1);
#ifdef VAR_RANGES
		logval("Gate:s", ((int)((P3 *)_this)->s));
#endif
		;
		
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[32];
			sprintf(simvals, "%d?", now.proof);
		sprintf(simtmp, "%d", ((int)((P3 *)_this)->s)); strcat(simvals, simtmp);		}
#endif
		;
		_m = 4; goto P999; /* 0 */
	case 17: // STATE 4 - latch.pml:96 - [((evidence==0))] (65:0:2 - 1)
		IfNotBlocked
		reached[3][4] = 1;
		if (!((((int)((P3 *)_this)->evidence)==0)))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: evidence */  (trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((P3 *)_this)->evidence;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P3 *)_this)->evidence = 0;
		/* merge: evidence = s(0, 5, 65) */
		reached[3][5] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P3 *)_this)->evidence);
		((P3 *)_this)->evidence = ((int)((P3 *)_this)->s);
#ifdef VAR_RANGES
		logval("Gate:evidence", ((int)((P3 *)_this)->evidence));
#endif
		;
		/* merge: .(goto)(0, 9, 65) */
		reached[3][9] = 1;
		;
		/* merge: .(goto)(0, 66, 65) */
		reached[3][66] = 1;
		;
		_m = 3; goto P999; /* 3 */
	case 18: // STATE 7 - latch.pml:97 - [evidence = s] (0:0:1 - 1)
		IfNotBlocked
		reached[3][7] = 1;
		(trpt+1)->bup.oval = ((int)((P3 *)_this)->evidence);
		((P3 *)_this)->evidence = ((int)((P3 *)_this)->s);
#ifdef VAR_RANGES
		logval("Gate:evidence", ((int)((P3 *)_this)->evidence));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 19: // STATE 10 - latch.pml:99 - [(((((gate==Answer)||(gate==Evidence))||(gate==Proved))&&nempty(ring)))] (0:0:0 - 1)
		IfNotBlocked
		reached[3][10] = 1;
		if (!(((((now.gate==6)||(now.gate==5))||(now.gate==4))&&(q_len(now.ring)>0))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 20: // STATE 11 - latch.pml:100 - [ring?s] (0:0:1 - 1)
		reached[3][11] = 1;
		if (q_len(now.ring) == 0) continue;

		XX=1;
		(trpt+1)->bup.oval = ((int)((P3 *)_this)->s);
		;
		((P3 *)_this)->s = qrecv(now.ring, XX-1, 0, 1);
#ifdef VAR_RANGES
		logval("Gate:s", ((int)((P3 *)_this)->s));
#endif
		;
		
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[32];
			sprintf(simvals, "%d?", now.ring);
		sprintf(simtmp, "%d", ((int)((P3 *)_this)->s)); strcat(simvals, simtmp);		}
#endif
		;
		_m = 4; goto P999; /* 0 */
	case 21: // STATE 12 - latch.pml:100 - [examined = (examined+1)] (0:0:1 - 1)
		IfNotBlocked
		reached[3][12] = 1;
		(trpt+1)->bup.oval = ((int)((P3 *)_this)->examined);
		((P3 *)_this)->examined = (((int)((P3 *)_this)->examined)+1);
#ifdef VAR_RANGES
		logval("Gate:examined", ((int)((P3 *)_this)->examined));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 22: // STATE 13 - latch.pml:102 - [((share==0))] (26:0:3 - 1)
		IfNotBlocked
		reached[3][13] = 1;
		if (!((((int)((P3 *)_this)->share)==0)))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: share */  (trpt+1)->bup.ovals = grab_ints(3);
		(trpt+1)->bup.ovals[0] = ((P3 *)_this)->share;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P3 *)_this)->share = 0;
		/* merge: share = s(26, 14, 26) */
		reached[3][14] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P3 *)_this)->share);
		((P3 *)_this)->share = ((int)((P3 *)_this)->s);
#ifdef VAR_RANGES
		logval("Gate:share", ((int)((P3 *)_this)->share));
#endif
		;
		/* merge: .(goto)(26, 19, 26) */
		reached[3][19] = 1;
		;
		/* merge: s = 0(26, 20, 26) */
		reached[3][20] = 1;
		(trpt+1)->bup.ovals[2] = ((int)((P3 *)_this)->s);
		((P3 *)_this)->s = 0;
#ifdef VAR_RANGES
		logval("Gate:s", ((int)((P3 *)_this)->s));
#endif
		;
		_m = 3; goto P999; /* 3 */
	case 23: // STATE 15 - latch.pml:103 - [(((share!=0)&&(share!=s)))] (26:0:3 - 1)
		IfNotBlocked
		reached[3][15] = 1;
		if (!(((((int)((P3 *)_this)->share)!=0)&&(((int)((P3 *)_this)->share)!=((int)((P3 *)_this)->s)))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: s */  (trpt+1)->bup.ovals = grab_ints(3);
		(trpt+1)->bup.ovals[0] = ((P3 *)_this)->s;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P3 *)_this)->s = 0;
		/* merge: differ = 1(26, 16, 26) */
		reached[3][16] = 1;
		(trpt+1)->bup.ovals[1] = ((int)((P3 *)_this)->differ);
		((P3 *)_this)->differ = 1;
#ifdef VAR_RANGES
		logval("Gate:differ", ((int)((P3 *)_this)->differ));
#endif
		;
		/* merge: .(goto)(26, 19, 26) */
		reached[3][19] = 1;
		;
		/* merge: s = 0(26, 20, 26) */
		reached[3][20] = 1;
		(trpt+1)->bup.ovals[2] = ((int)((P3 *)_this)->s);
		((P3 *)_this)->s = 0;
#ifdef VAR_RANGES
		logval("Gate:s", ((int)((P3 *)_this)->s));
#endif
		;
		_m = 3; goto P999; /* 3 */
	case 24: // STATE 20 - latch.pml:106 - [s = 0] (0:26:1 - 4)
		IfNotBlocked
		reached[3][20] = 1;
		(trpt+1)->bup.oval = ((int)((P3 *)_this)->s);
		((P3 *)_this)->s = 0;
#ifdef VAR_RANGES
		logval("Gate:s", ((int)((P3 *)_this)->s));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 25: // STATE 21 - latch.pml:109 - [(differ)] (0:0:1 - 1)
		IfNotBlocked
		reached[3][21] = 1;
		if (!(((int)((P3 *)_this)->differ)))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: differ */  (trpt+1)->bup.oval = ((P3 *)_this)->differ;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P3 *)_this)->differ = 0;
		_m = 3; goto P999; /* 0 */
	case 26: // STATE 22 - latch.pml:109 - [gate = Refused] (0:0:1 - 1)
		IfNotBlocked
		reached[3][22] = 1;
		(trpt+1)->bup.oval = now.gate;
		now.gate = 2;
#ifdef VAR_RANGES
		logval("gate", now.gate);
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 27: // STATE 23 - latch.pml:109 - [refused = 1] (0:0:1 - 1)
		IfNotBlocked
		reached[3][23] = 1;
		(trpt+1)->bup.oval = ((int)now.refused);
		now.refused = 1;
#ifdef VAR_RANGES
		logval("refused", ((int)now.refused));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 28: // STATE 28 - latch.pml:114 - [((gate==Answer))] (0:0:0 - 1)
		IfNotBlocked
		reached[3][28] = 1;
		if (!((now.gate==6)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 29: // STATE 29 - latch.pml:114 - [gate = Evidence] (0:0:1 - 1)
		IfNotBlocked
		reached[3][29] = 1;
		(trpt+1)->bup.oval = now.gate;
		now.gate = 5;
#ifdef VAR_RANGES
		logval("gate", now.gate);
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 30: // STATE 33 - latch.pml:117 - [((((gate==Evidence)&&(evidence!=0))&&(share!=0)))] (0:0:0 - 1)
		IfNotBlocked
		reached[3][33] = 1;
		if (!((((now.gate==5)&&(((int)((P3 *)_this)->evidence)!=0))&&(((int)((P3 *)_this)->share)!=0))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 31: // STATE 34 - latch.pml:122 - [((evidence==share))] (0:0:0 - 1)
		IfNotBlocked
		reached[3][34] = 1;
		if (!((((int)((P3 *)_this)->evidence)==((int)((P3 *)_this)->share))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 32: // STATE 35 - latch.pml:122 - [gate = Proved] (0:0:1 - 1)
		IfNotBlocked
		reached[3][35] = 1;
		(trpt+1)->bup.oval = now.gate;
		now.gate = 4;
#ifdef VAR_RANGES
		logval("gate", now.gate);
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 33: // STATE 36 - latch.pml:123 - [(((evidence!=share)&&empty(proof)))] (0:0:2 - 1)
		IfNotBlocked
		reached[3][36] = 1;
		if (!(((((int)((P3 *)_this)->evidence)!=((int)((P3 *)_this)->share))&&(q_len(now.proof)==0))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: evidence */  (trpt+1)->bup.ovals = grab_ints(2);
		(trpt+1)->bup.ovals[0] = ((P3 *)_this)->evidence;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P3 *)_this)->evidence = 0;
		if (TstOnly) return 1; /* TT */
		/* dead 1: share */  (trpt+1)->bup.ovals[1] = ((P3 *)_this)->share;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P3 *)_this)->share = 0;
		_m = 3; goto P999; /* 0 */
	case 34: // STATE 37 - latch.pml:123 - [gate = Refused] (0:0:1 - 1)
		IfNotBlocked
		reached[3][37] = 1;
		(trpt+1)->bup.oval = now.gate;
		now.gate = 2;
#ifdef VAR_RANGES
		logval("gate", now.gate);
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 35: // STATE 38 - latch.pml:123 - [refused = 1] (0:0:1 - 1)
		IfNotBlocked
		reached[3][38] = 1;
		(trpt+1)->bup.oval = ((int)now.refused);
		now.refused = 1;
#ifdef VAR_RANGES
		logval("refused", ((int)now.refused));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 36: // STATE 40 - latch.pml:124 - [(((evidence!=share)&&nempty(proof)))] (0:0:1 - 1)
		IfNotBlocked
		reached[3][40] = 1;
		if (!(((((int)((P3 *)_this)->evidence)!=((int)((P3 *)_this)->share))&&(q_len(now.proof)>0))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: evidence */  (trpt+1)->bup.oval = ((P3 *)_this)->evidence;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P3 *)_this)->evidence = 0;
		_m = 3; goto P999; /* 0 */
	case 37: // STATE 41 - latch.pml:124 - [evidence = 0] (0:0:1 - 1)
		IfNotBlocked
		reached[3][41] = 1;
		(trpt+1)->bup.oval = ((int)((P3 *)_this)->evidence);
		((P3 *)_this)->evidence = 0;
#ifdef VAR_RANGES
		logval("Gate:evidence", ((int)((P3 *)_this)->evidence));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 38: // STATE 44 - latch.pml:127 - [((((gate==Proved)&&(tries<3))&&empty(ring)))] (0:0:0 - 1)
		IfNotBlocked
		reached[3][44] = 1;
		if (!((((now.gate==4)&&(((int)((P3 *)_this)->tries)<3))&&(q_len(now.ring)==0))))
			continue;
		_m = 3; goto P999; /* 0 */
	case 39: // STATE 45 - latch.pml:127 - [tries = (tries+1)] (0:0:1 - 1)
		IfNotBlocked
		reached[3][45] = 1;
		(trpt+1)->bup.oval = ((int)((P3 *)_this)->tries);
		((P3 *)_this)->tries = (((int)((P3 *)_this)->tries)+1);
#ifdef VAR_RANGES
		logval("Gate:tries", ((int)((P3 *)_this)->tries));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 40: // STATE 46 - latch.pml:127 - [gate = Releasing] (0:0:1 - 1)
		IfNotBlocked
		reached[3][46] = 1;
		(trpt+1)->bup.oval = now.gate;
		now.gate = 3;
#ifdef VAR_RANGES
		logval("gate", now.gate);
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 41: // STATE 47 - latch.pml:127 - [kick!examined] (0:0:0 - 1)
		IfNotBlocked
		reached[3][47] = 1;
		if (q_full(now.kick))
			continue;
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[64];
			sprintf(simvals, "%d!", now.kick);
		sprintf(simtmp, "%d", ((int)((P3 *)_this)->examined)); strcat(simvals, simtmp);		}
#endif
		
		qsend(now.kick, 0, ((int)((P3 *)_this)->examined), 1);
		_m = 2; goto P999; /* 0 */
	case 42: // STATE 48 - latch.pml:128 - [((gate==Releasing))] (0:0:0 - 1)
		IfNotBlocked
		reached[3][48] = 1;
		if (!((now.gate==3)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 43: // STATE 49 - latch.pml:128 - [told?ok] (0:0:1 - 1)
		reached[3][49] = 1;
		if (q_len(now.told) == 0) continue;

		XX=1;
		(trpt+1)->bup.oval = ((int)((P3 *)_this)->ok);
		;
		((P3 *)_this)->ok = qrecv(now.told, XX-1, 0, 1);
#ifdef VAR_RANGES
		logval("Gate:ok", ((int)((P3 *)_this)->ok));
#endif
		;
		
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[32];
			sprintf(simvals, "%d?", now.told);
		sprintf(simtmp, "%d", ((int)((P3 *)_this)->ok)); strcat(simvals, simtmp);		}
#endif
		;
		_m = 4; goto P999; /* 0 */
	case 44: // STATE 50 - latch.pml:130 - [(ok)] (0:0:1 - 1)
		IfNotBlocked
		reached[3][50] = 1;
		if (!(((int)((P3 *)_this)->ok)))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: ok */  (trpt+1)->bup.oval = ((P3 *)_this)->ok;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P3 *)_this)->ok = 0;
		_m = 3; goto P999; /* 0 */
	case 45: // STATE 51 - latch.pml:130 - [gate = Open] (0:0:1 - 1)
		IfNotBlocked
		reached[3][51] = 1;
		(trpt+1)->bup.oval = now.gate;
		now.gate = 1;
#ifdef VAR_RANGES
		logval("gate", now.gate);
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 46: // STATE 54 - latch.pml:131 - [gate = Proved] (0:0:1 - 1)
		IfNotBlocked
		reached[3][54] = 1;
		(trpt+1)->bup.oval = now.gate;
		now.gate = 4;
#ifdef VAR_RANGES
		logval("gate", now.gate);
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 47: // STATE 57 - latch.pml:133 - [(((gate==Proved)&&(tries==3)))] (0:0:1 - 1)
		IfNotBlocked
		reached[3][57] = 1;
		if (!(((now.gate==4)&&(((int)((P3 *)_this)->tries)==3))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: tries */  (trpt+1)->bup.oval = ((P3 *)_this)->tries;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P3 *)_this)->tries = 0;
		_m = 3; goto P999; /* 0 */
	case 48: // STATE 58 - latch.pml:133 - [gate = Refused] (0:0:1 - 1)
		IfNotBlocked
		reached[3][58] = 1;
		(trpt+1)->bup.oval = now.gate;
		now.gate = 2;
#ifdef VAR_RANGES
		logval("gate", now.gate);
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 49: // STATE 59 - latch.pml:133 - [refused = 1] (0:0:1 - 1)
		IfNotBlocked
		reached[3][59] = 1;
		(trpt+1)->bup.oval = ((int)now.refused);
		now.refused = 1;
#ifdef VAR_RANGES
		logval("refused", ((int)now.refused));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 50: // STATE 61 - latch.pml:135 - [((gate!=Releasing))] (0:0:0 - 1)
		IfNotBlocked
		reached[3][61] = 1;
		if (!((now.gate!=3)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 51: // STATE 62 - latch.pml:135 - [gate = Refused] (0:0:1 - 1)
		IfNotBlocked
		reached[3][62] = 1;
		(trpt+1)->bup.oval = now.gate;
		now.gate = 2;
#ifdef VAR_RANGES
		logval("gate", now.gate);
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 52: // STATE 63 - latch.pml:135 - [refused = 1] (0:0:1 - 1)
		IfNotBlocked
		reached[3][63] = 1;
		(trpt+1)->bup.oval = ((int)now.refused);
		now.refused = 1;
#ifdef VAR_RANGES
		logval("refused", ((int)now.refused));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 53: // STATE 68 - latch.pml:137 - [-end-] (0:0:0 - 11)
		IfNotBlocked
		reached[3][68] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */

		 /* PROC Agent */
	case 54: // STATE 1 - latch.pml:77 - [((gate!=Hello))] (0:0:0 - 1)
		IfNotBlocked
		reached[2][1] = 1;
		if (!((now.gate!=7)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 55: // STATE 2 - latch.pml:79 - [proof!1] (0:0:0 - 1)
		IfNotBlocked
		reached[2][2] = 1;
		if (q_full(now.proof))
			continue;
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[64];
			sprintf(simvals, "%d!", now.proof);
		sprintf(simtmp, "%d", 1); strcat(simvals, simtmp);		}
#endif
		
		qsend(now.proof, 0, 1, 1);
		_m = 2; goto P999; /* 0 */
	case 56: // STATE 3 - latch.pml:80 - [proof!3] (0:0:0 - 1)
		IfNotBlocked
		reached[2][3] = 1;
		if (q_full(now.proof))
			continue;
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[64];
			sprintf(simvals, "%d!", now.proof);
		sprintf(simtmp, "%d", 3); strcat(simvals, simtmp);		}
#endif
		
		qsend(now.proof, 0, 3, 1);
		_m = 2; goto P999; /* 0 */
	case 57: // STATE 4 - latch.pml:81 - [proof!3] (0:0:0 - 1)
		IfNotBlocked
		reached[2][4] = 1;
		if (q_full(now.proof))
			continue;
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[64];
			sprintf(simvals, "%d!", now.proof);
		sprintf(simtmp, "%d", 3); strcat(simvals, simtmp);		}
#endif
		
		qsend(now.proof, 0, 3, 1);
		_m = 2; goto P999; /* 0 */
	case 58: // STATE 5 - latch.pml:81 - [proof!1] (0:0:0 - 1)
		IfNotBlocked
		reached[2][5] = 1;
		if (q_full(now.proof))
			continue;
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[64];
			sprintf(simvals, "%d!", now.proof);
		sprintf(simtmp, "%d", 1); strcat(simvals, simtmp);		}
#endif
		
		qsend(now.proof, 0, 1, 1);
		_m = 2; goto P999; /* 0 */
	case 59: // STATE 9 - latch.pml:84 - [-end-] (0:0:0 - 5)
		IfNotBlocked
		reached[2][9] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */

		 /* PROC Adversary */
	case 60: // STATE 1 - latch.pml:64 - [((gate!=Hello))] (0:0:0 - 1)
		IfNotBlocked
		reached[1][1] = 1;
		if (!((now.gate!=7)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 61: // STATE 2 - latch.pml:66 - [((left>0))] (4:0:1 - 1)
		IfNotBlocked
		reached[1][2] = 1;
		if (!((((int)((P1 *)_this)->left)>0)))
			continue;
		/* merge: left = (left-1)(0, 3, 4) */
		reached[1][3] = 1;
		(trpt+1)->bup.oval = ((int)((P1 *)_this)->left);
		((P1 *)_this)->left = (((int)((P1 *)_this)->left)-1);
#ifdef VAR_RANGES
		logval("Adversary:left", ((int)((P1 *)_this)->left));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 62: // STATE 4 - latch.pml:66 - [(run Segment(1,0))] (0:0:0 - 1)
		IfNotBlocked
		reached[1][4] = 1;
		if (!(addproc(II, 1, 0, 1, 0)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 63: // STATE 5 - latch.pml:67 - [((left>0))] (7:0:1 - 1)
		IfNotBlocked
		reached[1][5] = 1;
		if (!((((int)((P1 *)_this)->left)>0)))
			continue;
		/* merge: left = (left-1)(0, 6, 7) */
		reached[1][6] = 1;
		(trpt+1)->bup.oval = ((int)((P1 *)_this)->left);
		((P1 *)_this)->left = (((int)((P1 *)_this)->left)-1);
#ifdef VAR_RANGES
		logval("Adversary:left", ((int)((P1 *)_this)->left));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 64: // STATE 7 - latch.pml:67 - [(run Segment(1,1))] (0:0:0 - 1)
		IfNotBlocked
		reached[1][7] = 1;
		if (!(addproc(II, 1, 0, 1, 1)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 65: // STATE 8 - latch.pml:68 - [((left>0))] (10:0:1 - 1)
		IfNotBlocked
		reached[1][8] = 1;
		if (!((((int)((P1 *)_this)->left)>0)))
			continue;
		/* merge: left = (left-1)(0, 9, 10) */
		reached[1][9] = 1;
		(trpt+1)->bup.oval = ((int)((P1 *)_this)->left);
		((P1 *)_this)->left = (((int)((P1 *)_this)->left)-1);
#ifdef VAR_RANGES
		logval("Adversary:left", ((int)((P1 *)_this)->left));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 66: // STATE 10 - latch.pml:68 - [(run Segment(2,0))] (0:0:0 - 1)
		IfNotBlocked
		reached[1][10] = 1;
		if (!(addproc(II, 1, 0, 2, 0)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 67: // STATE 11 - latch.pml:69 - [((left>0))] (13:0:1 - 1)
		IfNotBlocked
		reached[1][11] = 1;
		if (!((((int)((P1 *)_this)->left)>0)))
			continue;
		/* merge: left = (left-1)(0, 12, 13) */
		reached[1][12] = 1;
		(trpt+1)->bup.oval = ((int)((P1 *)_this)->left);
		((P1 *)_this)->left = (((int)((P1 *)_this)->left)-1);
#ifdef VAR_RANGES
		logval("Adversary:left", ((int)((P1 *)_this)->left));
#endif
		;
		_m = 3; goto P999; /* 1 */
	case 68: // STATE 13 - latch.pml:69 - [(run Segment(2,1))] (0:0:0 - 1)
		IfNotBlocked
		reached[1][13] = 1;
		if (!(addproc(II, 1, 0, 2, 1)))
			continue;
		_m = 3; goto P999; /* 0 */
	case 69: // STATE 18 - latch.pml:72 - [-end-] (0:0:0 - 2)
		IfNotBlocked
		reached[1][18] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */

		 /* PROC Segment */
	case 70: // STATE 1 - latch.pml:52 - [count = (count+1)] (0:0:1 - 1)
		IfNotBlocked
		reached[0][1] = 1;
		(trpt+1)->bup.oval = ((int)now.count);
		now.count = (((int)now.count)+1);
#ifdef VAR_RANGES
		logval("count", ((int)now.count));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 71: // STATE 2 - latch.pml:52 - [ring!share] (0:0:0 - 1)
		IfNotBlocked
		reached[0][2] = 1;
		if (q_full(now.ring))
			continue;
#ifdef HAS_CODE
		if (readtrail && gui) {
			char simtmp[64];
			sprintf(simvals, "%d!", now.ring);
		sprintf(simtmp, "%d", ((int)((P0 *)_this)->share)); strcat(simvals, simtmp);		}
#endif
		
		qsend(now.ring, 0, ((int)((P0 *)_this)->share), 1);
		_m = 2; goto P999; /* 0 */
	case 72: // STATE 4 - latch.pml:55 - [(decoy)] (0:0:1 - 1)
		IfNotBlocked
		reached[0][4] = 1;
		if (!(((int)((P0 *)_this)->decoy)))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: decoy */  (trpt+1)->bup.oval = ((P0 *)_this)->decoy;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->decoy = 0;
		_m = 3; goto P999; /* 0 */
	case 73: // STATE 5 - latch.pml:56 - [((!(decoy)&&(taken==0)))] (0:0:1 - 1)
		IfNotBlocked
		reached[0][5] = 1;
		if (!(( !(((int)((P0 *)_this)->decoy))&&(((int)now.taken)==0))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: decoy */  (trpt+1)->bup.oval = ((P0 *)_this)->decoy;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->decoy = 0;
		_m = 3; goto P999; /* 0 */
	case 74: // STATE 6 - latch.pml:56 - [taken = share] (0:0:1 - 1)
		IfNotBlocked
		reached[0][6] = 1;
		(trpt+1)->bup.oval = ((int)now.taken);
		now.taken = ((int)((P0 *)_this)->share);
#ifdef VAR_RANGES
		logval("taken", ((int)now.taken));
#endif
		;
		_m = 3; goto P999; /* 0 */
	case 75: // STATE 7 - latch.pml:57 - [((!(decoy)&&(taken!=0)))] (0:0:1 - 1)
		IfNotBlocked
		reached[0][7] = 1;
		if (!(( !(((int)((P0 *)_this)->decoy))&&(((int)now.taken)!=0))))
			continue;
		if (TstOnly) return 1; /* TT */
		/* dead 1: decoy */  (trpt+1)->bup.oval = ((P0 *)_this)->decoy;
#ifdef HAS_CODE
		if (!readtrail)
#endif
			((P0 *)_this)->decoy = 0;
		_m = 3; goto P999; /* 0 */
	case 76: // STATE 10 - latch.pml:59 - [-end-] (0:0:0 - 4)
		IfNotBlocked
		reached[0][10] = 1;
		if (!delproc(1, II)) continue;
		_m = 3; goto P999; /* 0 */
	case  _T5:	/* np_ */
		if (!((!(trpt->o_pm&4) && !(trpt->tau&128))))
			continue;
		/* else fall through */
	case  _T2:	/* true */
		_m = 3; goto P999;
#undef rand
	}

