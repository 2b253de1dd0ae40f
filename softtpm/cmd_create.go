// SPDX-License-Identifier: Apache-2.0

package softtpm

import (
	"bytes"

	"holdfast/softtpm/internal/tpmcrypto"
	"holdfast/tpm2"
)

func init() {
	register(&command{code: tpm2.CCCreatePrimary, slots: []slot{{kHierarchy, roleUser}}, flags: fDecrypt | fEncrypt | fHandle | fPP, run: createPrimary})
	register(&command{code: tpm2.CCCreate, slots: []slot{{kObject, roleUser}}, flags: fDecrypt | fEncrypt, run: create})
	register(&command{code: tpm2.CCCreateLoaded, slots: []slot{{kParent, roleUser}}, flags: fDecrypt | fEncrypt | fHandle | fPP, run: createLoaded})
}

// creation is what Create and CreatePrimary read.
type creation struct {
	sens        tpm2.SensitiveCreate
	pub         tpm2.Public
	outsideInfo []byte
	pcrs        []tpm2.PCRSelection
}

// readCreation reads inSensitive, inPublic, outsideInfo and creationPCR.
func (c *call) readCreation() (x creation, rc tpm2.RC) {
	c.sized(func(r *tpm2.Reader) { x.sens.Unmarshal(r) })
	c.sized(func(r *tpm2.Reader) { readPublic(r, &x.pub, false) })
	x.outsideInfo = c.next().Sized(tpm2.MaxData)
	x.pcrs = readSelections(c.next())
	if rc := c.done(); rc != tpm2.RCSuccess {
		return x, rc
	}
	x.pub = clonePublic(x.pub)
	if len(trimAuth(x.sens.UserAuth)) > x.pub.NameAlg.DigestSize() {
		return x, tpm2.RCSize.Parameter(1)
	}
	return x, tpm2.RCSuccess
}

// readSelections reads a TPML_PCR_SELECTION over banks that the engine can have.
func readSelections(r *tpm2.Reader) []tpm2.PCRSelection {
	l := tpm2.UnmarshalPCRSelections(r)
	for _, s := range l {
		if !hashImplemented(s.Hash) {
			r.Fail(tpm2.RCHash)
		}
		if len(s.Select) > tpm2.PCRSelectMax {
			r.Fail(tpm2.RCValue)
		}
	}
	return l
}

// createPrimary is TPM2_CreatePrimary (Part 3, 24.1).
func createPrimary(c *call) tpm2.RC {
	x, rc := c.readCreation()
	if rc != tpm2.RCSuccess {
		return rc
	}
	if rc := c.objectRoom(); rc != tpm2.RCSuccess {
		return rc
	}
	hierarchy := c.handle(0)
	if rc := checkCreate(nil, &x.pub, len(x.sens.Data), false); rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	src := c.st.primarySource(hierarchy, &x.pub, x.sens.Data)
	defer src.Close()
	o := &object{hierarchy: hierarchy, primary: true, pub: x.pub, key: &keyCache{}}
	if rc := generate(o, src, x.sens.Data); rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	o.sens.Auth = bytes.Clone(trimAuth(x.sens.UserAuth))
	o.place(tpm2.HandleName(hierarchy))
	if c.outHandle, rc = c.addObject(o); rc != tpm2.RCSuccess {
		return rc
	}
	c.writePublic(o)
	c.writeCreation(o, &x, hierarchy, nil)
	c.out.Sized(o.name)
	return tpm2.RCSuccess
}

// create is TPM2_Create (Part 3, 12.1).
func create(c *call) tpm2.RC {
	x, rc := c.readCreation()
	if rc != tpm2.RCSuccess {
		return rc
	}
	parent := c.object(0)
	if !parent.isStorageParent() || parent.publicOnly {
		return tpm2.RCType.Handle(1)
	}
	if rc := checkCreate(parent, &x.pub, len(x.sens.Data), false); rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	o := &object{hierarchy: parent.hierarchy, pub: x.pub, key: &keyCache{}}
	defer o.wipe()
	if rc := generate(o, c.t.rng, x.sens.Data); rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	o.sens.Auth = bytes.Clone(trimAuth(x.sens.UserAuth))
	o.place(parent.qname)
	c.out.Sized(c.t.wrap(parent, o.name, &o.sens))
	c.writePublic(o)
	c.writeCreation(o, &x, parent.hierarchy, parent)
	return tpm2.RCSuccess
}

// writePublic writes a TPM2B_PUBLIC.
func (c *call) writePublic(o *object) {
	m := c.out.Begin()
	o.pub.Marshal(&c.out)
	c.out.End(m)
}

// writeCreation writes creationData, creationHash and creationTicket of an
// object; parent is nil for primary objects.
func (c *call) writeCreation(o *object, x *creation, hierarchy tpm2.Handle, parent *object) {
	sel, values := c.st.selectPCRs(x.pcrs)
	d := tpm2.CreationData{PCRSelect: sel, Locality: tpm2.LocalityBit(c.locality), ParentNameAlg: tpm2.AlgNull, OutsideInfo: x.outsideInfo}
	if len(x.pcrs) != 0 {
		d.PCRDigest = tpm2.PCRDigest(o.pub.NameAlg, values...)
	} else {
		d.PCRDigest = o.pub.NameAlg.Sum()
	}
	if parent != nil {
		d.ParentNameAlg, d.ParentName, d.ParentQualifiedName = parent.pub.NameAlg, parent.name, parent.qname
	} else {
		d.ParentName = tpm2.HandleName(hierarchy)
		d.ParentQualifiedName = d.ParentName
	}
	m := c.out.Begin()
	d.Marshal(&c.out)
	c.out.End(m)
	b, err := tpm2.Encode(&d)
	if err != nil {
		c.out.Fail(err)
		return
	}
	hash := o.pub.NameAlg.Sum(b)
	c.out.Sized(hash)
	c.st.ticket(hierarchy, tpm2.STCreation, o.name, hash).Marshal(&c.out)
}

// createLoaded is TPM2_CreateLoaded (Part 3, 12.9): a primary object, an
// ordinary one, or one derived from a derivation parent.
func createLoaded(c *call) tpm2.RC {
	var sens tpm2.SensitiveCreate
	var pub tpm2.Public
	parent := c.object(0)
	derived := parent != nil && parent.isDerivationParent()
	c.sized(func(r *tpm2.Reader) { sens.Unmarshal(r) })
	c.sized(func(r *tpm2.Reader) {
		pub.UnmarshalTemplate(r, derived)
		publicImplemented(r, &pub)
	})
	if rc := c.done(); rc != tpm2.RCSuccess {
		return rc
	}
	if rc := c.objectRoom(); rc != tpm2.RCSuccess {
		return rc
	}
	if parent != nil && (!parent.isParent() || parent.publicOnly) {
		return tpm2.RCType.Handle(1)
	}
	pub = clonePublic(pub)
	if len(trimAuth(sens.UserAuth)) > pub.NameAlg.DigestSize() {
		return tpm2.RCSize.Parameter(1)
	}
	if derived && pub.Type != tpm2.AlgKeyedHash && pub.Type != tpm2.AlgSymCipher && pub.Type != tpm2.AlgECC {
		return tpm2.RCType.Parameter(2)
	}
	if rc := checkCreate(parent, &pub, len(sens.Data), derived); rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	o := &object{pub: pub, key: &keyCache{}}
	var rc tpm2.RC
	switch {
	case derived:
		o.hierarchy = parent.hierarchy
		rc = derive(o, parent, sens.Data)
	case parent != nil:
		o.hierarchy = parent.hierarchy
		rc = generate(o, c.t.rng, sens.Data)
	default:
		o.hierarchy, o.primary = c.handle(0), true
		src := c.st.primarySource(o.hierarchy, &pub, sens.Data)
		rc = generate(o, src, sens.Data)
		src.Close()
	}
	if rc != tpm2.RCSuccess {
		return rc.Parameter(2)
	}
	o.sens.Auth = bytes.Clone(trimAuth(sens.UserAuth))
	var private []byte
	if parent != nil {
		o.place(parent.qname)
		if !derived {
			private = c.t.wrap(parent, o.name, &o.sens)
		}
	} else {
		o.place(tpm2.HandleName(o.hierarchy))
	}
	if c.outHandle, rc = c.addObject(o); rc != tpm2.RCSuccess {
		return rc
	}
	c.out.Sized(private)
	c.writePublic(o)
	c.out.Sized(o.name)
	return tpm2.RCSuccess
}

// derive makes a derived object (Part 1, 28): label and context come from the
// sensitive data, where given, else from the template.
func derive(o, parent *object, data []byte) tpm2.RC {
	label, context := o.pub.Point.X, o.pub.Point.Y
	o.pub.Point = tpm2.Point{}
	if len(data) != 0 {
		r := tpm2.NewReader(data)
		l, x := r.Sized(tpm2.MaxLabel), r.Sized(tpm2.MaxLabel)
		r.End()
		if rc := r.Code(); rc != tpm2.RCSuccess {
			return rc
		}
		if len(l) != 0 {
			label = l
		}
		if len(x) != 0 {
			context = x
		}
	}
	template, err := tpm2.Encode(&o.pub)
	if err != nil {
		return tpm2.RCFailure
	}
	h := tpmcrypto.SHA512
	src := tpmcrypto.NewDRBG(h, h.Sum(parent.sens.Value), h.Sum(template), h.Sum(label), h.Sum(context), []byte("holdfast derived object"))
	defer src.Close()
	return generate(o, src, nil)
}
