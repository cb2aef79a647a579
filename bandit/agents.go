package bandit

import "precept/bandit/trial"

// maxAgents is how many of a tenant's agents are counted by name. A limit is needed because a client may send a new
// name for each job.
const maxAgents = 32

const otherAgents = "other"

// BoundNames replaces a new agent name by otherAgents, and a new model name by trial.OtherModels, if the tenant already
// has the maximum number of such names.
func (c *Chooser) BoundNames(a *trial.Assignment) {
	a.Model = c.trialCounters.CountedModelName(a.Model)
	if a.Category == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a.Category = c.countedCategory(a)
	agent, _, _ := trial.CategoryParts(a.Category)
	c.addAgent(agent)
}

// countedCategory returns the category for counting a session. The caller holds mu.
func (c *Chooser) countedCategory(a *trial.Assignment) string {
	category := c.withCountedAgent(a.Category)
	if agent, model, length := trial.CategoryParts(category); a.Model == trial.OtherModels && length != "" && model != a.Model {
		return trial.Category(agent, a.Model, length)
	}
	return category
}

// withCountedAgent replaces a new agent in a category by otherAgents if maxAgents agents are known. The caller holds
// mu.
func (c *Chooser) withCountedAgent(category string) string {
	agent, model, length := trial.CategoryParts(category)
	if _, known := c.agents[agent]; known || len(c.agents) < maxAgents || agent == otherAgents || length == "" {
		return category
	}
	return trial.Category(otherAgents, model, length)
}

func (c *Chooser) addAgent(agent string) {
	if agent != otherAgents {
		c.agents[agent] = struct{}{}
	}
}
